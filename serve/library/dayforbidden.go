package library

import (
	"context"
	"io"
	"strings"

	"sheaf/archive"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
)

// asked returns the preferences in the newest of a page's records. It passes over answers without
// the page. A 304, for one, has neither the page nor all of its headers.
func asked(parts []archive.Part, records []spot) string {
	for i := len(records) - 1; i >= 0; i-- {
		cell := &parts[records[i].part].Index.Cells[records[i].cell]
		if cell.Kind == archive.Page || cell.Kind == archive.Revisit && cell.Status/100 == 2 {
			return cell.Preferences
		}
	}
	return ""
}

// robotsRules has the rules of a host's newest robots.txt, by scheme. They are nil if the
// robots.txt is not here or cannot be seen.
type robotsRules map[string]*preference.Robots

// forbid returns what forbids a page to Sheaf's robots: ByRobots, ByNoIndex or nothing.
func (r robotsRules) forbid(s stand) string {
	if s.of.Kind != archive.Page {
		return ""
	}
	scheme, _, _ := strings.Cut(s.of.URL, "://")
	if rules := r[scheme]; rules != nil && !rules.Allowed(preference.Robot, weburl.PathQuery(s.of.URL)) {
		return ByRobots
	}
	for _, name := range []string{preference.RobotsMeta, preference.RobotsTag} {
		if preference.ReadTag([]string{preference.Value(s.asks, name)}, preference.Robot).NoIndex {
			return ByNoIndex
		}
	}
	return ""
}

// readRules reads the host's robots.txt files of both states. A file that is the same in both is
// read once.
func (d *hostDay) readRules(ctx context.Context, host string) (err error) {
	d.rulesBefore, d.rules = make(robotsRules), make(robotsRules)
	for _, scheme := range []string{"http", "https"} {
		url := scheme + "://" + host + "/robots.txt"
		was, there := d.before[url]
		if there {
			if d.rulesBefore[scheme], err = d.rulesOf(ctx, was); err != nil {
				return err
			}
		}
		switch is, stands := d.after[url]; {
		case !stands:
		case there && is.of.Digest == was.of.Digest && is.of.Kind == was.of.Kind && is.of.Status == was.of.Status:
			d.rules[scheme] = d.rulesBefore[scheme]
		default:
			if d.rules[scheme], err = d.rulesOf(ctx, is); err != nil {
				return err
			}
		}
	}
	return nil
}

// rulesOf returns the rules in a record of a robots.txt. A 4xx allows everything. The rules are nil
// if the record has none, or cannot be seen now.
func (d *hostDay) rulesOf(ctx context.Context, s stand) (*preference.Robots, error) {
	switch {
	case !d.sees(s.seg, s.of.URL, s.of.Time):
		return nil, nil
	case s.of.Status/100 == 4:
		return new(preference.Robots), nil
	case s.of.Kind != archive.Page:
		return nil, nil
	}
	page, err := archive.PageBodyOf(s.part.Source, s.of)
	if err != nil {
		return nil, err
	}
	body, err := page.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, preference.MaxRobots+1))
	if err != nil {
		return nil, err
	}
	return preference.ParseRobots(text), nil
}

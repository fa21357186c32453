package records

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"sheaf/internal/preference"
	"sheaf/internal/route"
	"sheaf/internal/wire"
	"sheaf/serve/library"
)

// MaxLimit is the highest limit that a query may have.
const MaxLimit = 100_000

// Query is a search with the form of its answer, as ParseQuery returns it.
type Query struct {
	Search Search
	Limit  int // maximum number of records; 0: not given
	Output IndexOutput
	Cursor *Cursor

	fields    []string // as requested; nil: those of the output format
	filters   []Filter
	asked     []preference.Filter // what the record's preferences must be
	modified  *period             // when the page was last changed, as its server said; nil: any time, or never said
	collapses []collapse
	latest    bool
	closest   time.Time // zero: not given
	last      bool      // return the last lines instead of the first
	skip      int       // records to skip before the first
	counters  counters  // what to count for each record
	resolve   bool      // add the place of the page that a revisit refers to
	pages     paging    // requested part of the answer
	gzip      *bool     // whether to compress the answer; nil: if the client accepts it
	originals *bool     // whether to include the pages that revisits refer to; nil: depends on the file
	showKey   bool      // write the cursor at the end, as at the Internet Archive
}

// These structs say which parameters a query has, for the description of the API. Parse reads them.
type (
	// Targets says which URLs' records are wanted.
	Targets struct {
		URL string `query:"url" doc:"a URL, host or domain; with matchType, or a star at either end"`
		Match
	}

	// Match says how url selects records, and when these were fetched.
	Match struct {
		MatchType string `query:"matchType" doc:"exact, prefix, host or domain"`
		From      string `query:"from" doc:"least time, 4 to 14 digits"`
		To        string `query:"to" doc:"last time"`
	}

	// Choice says which of the records are wanted, and in which order.
	Choice struct {
		Edition    string   `query:"edition" doc:"only records that the edition of this name brought"`
		Collection string   `query:"collection" doc:"only records that were imported as the collection of this name"`
		Preference []string `query:"preference" doc:"what the owner asks of those who use the page: any, a name such as content-usage, or name:text; ! before it selects the others; may be repeated"`
		Modified   string   `query:"modified" doc:"when the server says that the page was last changed: a time, or a period A/B with one end or both"`
		Language   string   `query:"language" doc:"only pages in a language, such as ja; the beginning of each page is read for it"`
		Filter     []string `query:"filter" doc:"[!][~ or =]field:value"`
		Collapse   []string `query:"collapse" doc:"field, or field:length"`
		Latest     bool     `query:"latest" doc:"only the record that stands for each URL now"`
		Closest    string   `query:"closest" doc:"lines of one URL in the order of their distance from a time"`
		Sort       string   `query:"sort" doc:"default, reverse or closest"`
		Limit      int      `query:"limit" doc:"records at most; below 0: the last ones"`
		Cursor     string   `query:"cursor" doc:"where to go on: the Link header says it"`
		ResumeKey  string   `query:"resumeKey" doc:"the same, as the Internet Archive has it"`
	}

	// Lines says how index lines look.
	Lines struct {
		FL                string `query:"fl" doc:"fields, with commas between"`
		Fields            string `query:"fields" doc:"the same as fl"`
		Output            string `query:"output" doc:"cdxj, json, ndjson or text"`
		ShowResumeKey     bool   `query:"showResumeKey" doc:"end with the cursor"`
		Offset            int    `query:"offset" min:"0" max:"10000000" doc:"records to pass over before the first"`
		FastLatest        bool   `query:"fastLatest" doc:"the last lines, as a limit below 0"`
		ResolveRevisits   bool   `query:"resolveRevisits" doc:"tell where the page lies that a revisit refers to: orig.length, orig.offset, orig.filename"`
		ShowDupeCount     bool   `query:"showDupeCount" doc:"tell as dupecount how many records before had the same digest; of one URL"`
		ShowSkipCount     bool   `query:"showSkipCount" doc:"tell as skipcount how many records filters and collapses left out behind a record"`
		LastSkipTimestamp bool   `query:"lastSkipTimestamp" doc:"tell as endtimestamp when the last of these was fetched"`
		Gzip              bool   `query:"gzip" doc:"false: not compressed, whatever Accept-Encoding says"`
		AllowFuzzy        string `query:"allowFuzzy" doc:"known, and changes nothing"`
	}

	// Paging asks for a part of the answer.
	Paging struct {
		Page         int  `query:"page" doc:"one part of the answer, from 0"`
		PageSize     int  `query:"pageSize" min:"1" max:"33" default:"5" doc:"blocks of 3000 records that a page looks at"`
		ShowNumPages bool `query:"showNumPages" doc:"only how many pages there are: in JSON blocks, pages and pageSize, the number alone in output=text"`
	}

	// Files says what a file of records contains.
	Files struct {
		Originals bool `query:"originals" doc:"whether files have the pages that revisits refer to; by default it depends on the file"`
	}
)

// parameters are the names of all parameters that a query may have.
var parameters = route.Names[struct {
	Targets
	Choice
	Lines
	Paging
	Files
}]()

// several are the parameters that may be repeated.
var several = []string{"filter", "preference", "collapse"}

// OnlyParameters returns a *ParamError if a query has a parameter that is not among names.
func OnlyParameters(values url.Values, names []string) error {
	for name, all := range values {
		if !slices.Contains(names, name) {
			return &ParamError{name, all[0], "is no parameter of this path; it has " + strings.Join(names, ", ")}
		}
	}
	return nil
}

// ParseQuery parses a query's parameters. list has the targets from a request's body; nil if there
// were none. An error is a *ParamError, or ErrCursorExpired.
func ParseQuery(values url.Values, list []library.Target) (*Query, error) {
	if err := OnlyParameters(values, parameters); err != nil {
		return nil, err
	}
	for name, all := range values {
		if len(all) > 1 && !slices.Contains(several, name) {
			return nil, &ParamError{name, all[1], "is given twice"}
		}
	}
	q := new(Query)
	p := parser{values: values, query: q}
	p.targets(list)
	for _, step := range []func(){p.times, p.origin, p.conditions, p.order, p.limit, p.form, p.count, p.paging, p.cursor} {
		step()
	}
	if p.err != nil {
		return nil, p.err
	}
	return q, nil
}

type parser struct {
	values url.Values
	query  *Query
	err    error // the first one; get calls nothing after it
}

// get calls parse with each non-empty value of a parameter. It keeps the first error, with the
// parameter's name.
func (p *parser) get(name string, parse func(string) error) {
	for _, text := range p.values[name] {
		if text == "" || p.err != nil {
			continue
		}
		err := parse(text)
		if _, ok := errors.AsType[*ParamError](err); err == nil || ok || errors.Is(err, ErrCursorExpired) {
			p.err = err
		} else {
			p.err = &ParamError{name, text, err.Error()}
		}
	}
}

// set is get for a parameter with one value, which it parses to a field of the query.
func set[T any](p *parser, name string, to *T, parse func(string) (T, error)) {
	p.get(name, func(text string) (err error) { *to, err = parse(text); return err })
}

// add is set for a parameter that may be repeated, at most so many times.
func add[T any](p *parser, name string, to *[]T, most int, parse func(string) (T, error)) {
	p.get(name, func(text string) error {
		one, err := parse(text)
		if *to = append(*to, one); err == nil && len(*to) > most {
			err = fmt.Errorf("more than %d of them", most)
		}
		return err
	})
}

// refuse refuses a parameter that the query has, if bad is true.
func (p *parser) refuse(name string, bad bool, why string) {
	if bad {
		p.get(name, func(string) error { return errors.New(why) })
	}
}

func (p *parser) flag(name string, to *bool) { set(p, name, to, parseFlag) }

func parseFlag(text string) (bool, error) {
	is, err := strconv.ParseBool(text)
	if err != nil {
		err = errors.New("want true or false")
	}
	return is, err
}

// choice is parseFlag for a flag whose default depends on other things.
func choice(text string) (*bool, error) {
	is, err := parseFlag(text)
	return &is, err
}

// oneOf returns a parser of the keys of a map.
func oneOf[T any](all map[string]T, want string) func(string) (T, error) {
	return func(text string) (T, error) {
		is, ok := all[text]
		if !ok {
			return is, errors.New(want)
		}
		return is, nil
	}
}

// number returns a parser of the numbers from least to most.
func number(least, most int, want string) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return n, errors.New(want)
		}
		return n, nil
	}
}

func (p *parser) targets(list []library.Target) {
	match := library.Match(0)
	set(p, "matchType", &match, oneOf(matches, "want exact, prefix, host or domain"))
	p.query.Search.Targets = list
	p.get("url", func(text string) error {
		if list != nil {
			return errors.New("the body has the targets already; leave this parameter out")
		}
		if text == "*" && match == 0 {
			return nil
		}
		t, err := parseTarget(text, match)
		p.query.Search.Targets = []library.Target{t}
		return err
	})
	if p.query.Search.Targets == nil {
		p.refuse("matchType", true, "there is no url that it could be of")
		p.query.Search.Targets = []library.Target{{Match: library.MatchAll}}
	}
}

func (p *parser) times() {
	s := &p.query.Search
	first := func(text string) (time.Time, error) { t, _, err := parseTime(text); return t, err }
	set(p, "from", &s.From, first)
	set(p, "to", &s.To, func(text string) (time.Time, error) { _, t, err := parseTime(text); return t, err })
	p.refuse("to", s.To.Before(s.From), "lies before from="+p.values.Get("from"))
	set(p, "modified", &p.query.modified, parsePeriod)
	set(p, "closest", &p.query.closest, first)
}

// origin parses what brought the records: an edition, or a collection.
func (p *parser) origin() {
	s := &p.query.Search
	s.Edition, s.Of = p.values.Get("edition"), p.values.Get("collection")
	p.refuse("collection", !wire.ValidCollection(s.Of), wire.CollectionForm)
}

func (p *parser) conditions() {
	q := p.query
	add(p, "filter", &q.filters, maxFilters, parseFilter)
	p.get("language", func(text string) error {
		base, err := language.ParseBase(text)
		if err != nil {
			return errors.New("want a language, such as ja")
		}
		q.filters = append(q.filters, Filter{field: fieldLanguage, text: base.String(), exact: true})
		return nil
	})
	add(p, "preference", &q.asked, maxFilters, preference.ParseFilter)
	add(p, "collapse", &q.collapses, maxCollapses, parseCollapse)
	p.flag("latest", &q.latest)
}

func (p *parser) form() {
	q := p.query
	set(p, "fl", &q.fields, parseFields)
	set(p, "fields", &q.fields, parseFields)
	set(p, "output", &q.Output, oneOf(outputs, "want cdxj, json, ndjson or text"))
	p.flag("showResumeKey", &q.showKey)
	set(p, "originals", &q.originals, choice)
	p.flag("resolveRevisits", &q.resolve)
	set(p, "gzip", &q.gzip, choice)
}

// Gzip reports whether the answer may be compressed if the client accepts that.
func (q *Query) Gzip() bool { return q.gzip == nil || *q.gzip }

// count parses which counts are wanted, and checks that the query can have them.
func (p *parser) count() {
	q, c := p.query, &p.query.counters
	p.flag("showDupeCount", &c.dupes)
	p.flag("showSkipCount", &c.skips)
	p.flag("lastSkipTimestamp", &c.skipsEnd)
	const alone = "cannot be combined with closest, latest, sort=reverse and the last lines"
	ordered := !q.closest.IsZero() || q.last || q.Search.Reverse || q.latest
	p.refuse("showDupeCount", c.dupes && ordered, alone)
	p.refuse("showDupeCount", c.dupes && !q.oneURL(), "works for one URL only")
	p.refuse("showSkipCount", c.skips && ordered, alone)
	p.refuse("lastSkipTimestamp", c.skipsEnd && ordered, alone)
}

func (p *parser) cursor() {
	q := p.query
	for _, name := range []string{"cursor", "resumeKey"} {
		set(p, name, &q.Cursor, parseCursor)
		p.refuse(name, !q.closest.IsZero(), "cannot be combined with closest")
		p.refuse(name, q.last, "cannot be combined with a negative limit")
		p.get(name, func(string) error { return q.Cursor.check(q, time.Now()) })
	}
	if q.Cursor != nil {
		q.Search.After = &q.Cursor.Position
	}
}

// ID identifies the records of the query's answer: queries that are written differently but ask for
// the same records have the same ID.
func (q *Query) ID() string {
	after := ""
	if q.Cursor != nil {
		after = q.Cursor.String()
	}
	originals := "as suits"
	if q.originals != nil {
		originals = strconv.FormatBool(*q.originals)
	}
	return fmt.Sprintf("%s %d %t %d %d %s %s", q.id(), q.Limit, q.last, q.skip, q.closest.UnixNano(), originals, after)
}

// id identifies the search, without the format of the answer.
func (q *Query) id() string {
	h := sha256.New()
	s := &q.Search
	for _, t := range s.Targets {
		fmt.Fprintf(h, "%d %q %q\n", t.Match, t.Host, t.Key)
	}
	fmt.Fprintf(h, "%v %v %t %t\n", s.From.UnixNano(), s.To.UnixNano(), s.Reverse, q.latest)
	if s.Edition != "" {
		fmt.Fprintf(h, "edition %q\n", s.Edition)
	}
	if s.Of != "" {
		fmt.Fprintf(h, "collection %q\n", s.Of)
	}
	if m := q.modified; m != nil {
		fmt.Fprintf(h, "modified %d %d\n", m.from.UnixNano(), m.to.UnixNano())
	}
	for _, f := range q.filters {
		fmt.Fprintf(h, "%q %t %q %t %v\n", f.field, f.not, f.text, f.exact, f.match)
	}
	for _, f := range q.asked {
		fmt.Fprintf(h, "preference %v\n", f)
	}
	for _, c := range q.collapses {
		fmt.Fprintf(h, "%q %d\n", c.field, c.first)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Latest reports whether only the newest record of each URL key is wanted.
func (q *Query) Latest() bool { return q.latest }

// Originals reports whether the query's files have the pages that revisits refer to. suits is the
// answer for files of this kind if the query does not say.
func (q *Query) Originals(suits bool) bool {
	if q.originals != nil {
		return *q.originals
	}
	return suits
}

// ParamError says which parameter of a query is wrong, and why.
type ParamError struct {
	Name  string
	Value string
	Why   string
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("%s=%.200q: %s", e.Name, e.Value, e.Why)
}

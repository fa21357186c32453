package board

import (
	"os"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/levelling"
)

func pageFor(role operators.Role, lang string) page {
	return page{Page: webpage.Page{Site: &webpage.Site{}, Lang: lang}, role: role}
}

// Whatever is wrong is shown with a sentence that stands in the runbook, and with one button.
func TestAdviceIsTheRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook.md")
	testkit.Must(t, err)
	runbook := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "`", "")), " ")
	for _, kind := range Kinds() {
		a := pageFor(operators.Worker, "en").advise(Failure{Kind: kind, Path: "/board/x"})
		if a.Says == "" || !strings.Contains(runbook, a.Says) {
			t.Errorf("%s: the runbook does not say %q", kind, a.Says)
		}
		if a.Button == "" || a.To == "" {
			t.Errorf("%s has no button", kind)
		}
		if j := pageFor(operators.Worker, "ja").advise(a.Failure); j.Says == a.Says || j.Button == a.Button {
			t.Errorf("%s is not told in Japanese: %q, %q", kind, j.Says, j.Button)
		}
	}
}

// A reason of the quarantine is shown with what the runbook says to do.
func TestReasonsAreTheRunbooks(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook.md")
	testkit.Must(t, err)
	runbook := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "`", "")), " ")
	for _, reason := range wire.QuarantineReasons() {
		_, section, _ := strings.Cut(runbook, "## "+string(reason)+" ")
		section, _, _ = strings.Cut(section, "## ")
		if says := pageFor(operators.Worker, "en").ReasonSays(reason); says == "" || !strings.Contains(section, says) {
			t.Errorf("%s: the runbook does not say %q", reason, says)
		}
	}
}

// A button acts only for those who may; others are led to the page.
func TestButtonsAreForThoseWhoMay(t *testing.T) {
	old := KindRobot + string(wire.TroubleOld)
	for _, c := range []struct {
		role   operators.Role
		kind   string
		to     string
		form   bool
		act    string
		button string
	}{
		{operators.Worker, KindPublication, pathPublish, true, "", "Publish now"},
		{operators.Viewer, KindPublication, "/board/x", false, "", "Look"},
		{operators.Admin, old, "/board/x", true, "upgrade", "Look for its release now"},
		{operators.Viewer, old, "/board/x", false, "", "Look"},
		{operators.Viewer, KindQuarantine, "/board/x", false, "", "Decide"},
	} {
		a := pageFor(c.role, "en").advise(Failure{Kind: c.kind, Path: "/board/x"})
		if a.To != c.to || a.Form != c.form || a.Act != c.act || a.Button != c.button {
			t.Errorf("%s of %s: %+v", c.role, c.kind, a)
		}
	}
}

// The first sentence says what the night brought, and is never calm while something waits.
func TestNightInOneSentence(t *testing.T) {
	now := time.Now().UTC()
	last := &catalog.Edition{Name: "20261128", Hosts: 37, Records: 1817, Published: now}
	for _, c := range []struct {
		lang      string
		last      *catalog.Edition
		wrong     int
		more      int
		waiting   int
		mute      int64
		want      string
		todo      int
		published time.Duration // ago
	}{
		{"en", last, 0, 0, 0, 0, "Last night: 37 hosts, 1,817 pages, published " + now.Format("15:04") + "; nothing for you to do.", 0, 0},
		{"en", last, 1, 0, 0, 0, "Last night: 37 hosts, 1,817 pages, published " + now.Format("15:04") + "; 1 thing for you to do.", 1, 0},
		{"en", last, 2, 5, 9, 0, "Last night: 37 hosts, 1,817 pages, published " + now.Format("15:04") + "; 8 things for you to do.", 8, 0},
		{"ja", last, 0, 0, 0, 0, "昨夜: 37 ホスト、1,817 ページ、公開 " + now.Format("15:04") + "。対応が必要なことはありません。", 0, 0},
		{"en", last, 0, 0, 0, 2, "Last night: 37 hosts, 1,817 pages, 2 did not answer, published " + now.Format("15:04") + "; nothing for you to do.", 0, 0},
		{"en", nil, 0, 0, 1, 0, "Nothing is published yet; 1 thing for you to do.", 1, 0},
		{"en", last, 0, 0, 0, 0, "The last edition is of " + now.Add(-50*time.Hour).Format("2006-01-02 15:04 MST") + ": 37 hosts, 1,817 pages; nothing for you to do.", 0, 50 * time.Hour},
	} {
		p := overviewPage{page: pageFor(operators.Viewer, c.lang), Failures: make([]advice, c.wrong), More: c.more, Waiting: c.waiting, Unanswered: c.mute}
		if c.last != nil {
			one := *c.last
			one.Published = now.Add(-c.published)
			p.Last = &one
		}
		if got := p.Night(); got != c.want || p.Todo() != c.todo {
			t.Errorf("%q, want %q; %d to do", got, c.want, p.Todo())
		}
	}
}

// A robot's end is told only where it follows from its rate.
func TestEndOfARobotsNight(t *testing.T) {
	p := pageFor(operators.Viewer, "en")
	for _, c := range []struct {
		work  levelling.Backlog
		wrong bool
		share int64
		end   string
	}{
		{levelling.Backlog{}, false, 0, "–"},
		{levelling.Backlog{Pages: 300}, false, 100, "done"},
		{levelling.Backlog{Pages: 100, Left: 300}, false, 25, "–"},
		{levelling.Backlog{Pages: 100, Left: 300, Rate: 1}, true, 25, "–"},
		{levelling.Backlog{Pages: 1, Left: 999, Rate: 0.001}, false, 0, "about " + p.shortly(time.Now().Add(999_000*time.Second))},
	} {
		if r := (robot{Backlog: c.work, Wrong: c.wrong}); r.Share() != c.share || p.End(r) != c.end {
			t.Errorf("%+v: %d %%, %s; want %d %%, %s", c.work, r.Share(), p.End(r), c.share, c.end)
		}
	}
}

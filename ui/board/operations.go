package board

import (
	"net/http"

	"sheaf/ingest"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
)

// Queries and forms of the pages.
type (
	firstLine struct {
		From int `query:"from" doc:"the first line, counted from 0"`
	}
	robotsQuery struct {
		From int    `query:"from" doc:"the first line, counted from 0"`
		By   string `query:"by" enum:"hour,day,month" default:"hour" doc:"of the charts"`
	}
	afterLine struct {
		After string `query:"after" doc:"the line after which the list begins"`
	}
	batchesQuery struct {
		State  string `query:"state" doc:"such as quarantined"`
		Robot  string `query:"robot" doc:"only of this one"`
		Reason string `query:"reason" doc:"only those that are in the quarantine for this one"`
		After  string `query:"after" doc:"the ID after which the list begins"`
	}
	batchForm struct {
		Batches []string    `form:"batch"`
		Act     string      `form:"act" enum:"release,discard"`
		Undo    string      `form:"undo" doc:"a batch that was discarded, and is not to be"`
		Note    string      `form:"note"`
		Match   bool        `form:"match" doc:"all that wait and match the two below"`
		Most    int         `form:"most" min:"0" doc:"nothing is decided if more match"`
		Robot   string      `form:"robot"`
		Reason  wire.Reason `form:"reason"`
	}
	removalForm struct {
		ID       string `form:"id"`
		Act      string `form:"act" enum:"grant,refuse" required:"true"`
		Reason   string `form:"reason"`
		Unproved string `form:"unproved"`
	}
	robotForm struct {
		Act string `form:"act" enum:"pause,resume,restart,upgrade" required:"true"`
	}
	hostsQuery struct {
		State      hosts.State `query:"state" enum:"accepted,pending,refused,all" doc:"if it is empty, and nothing else is given: pending"`
		Part       string      `query:"part" doc:"only those with this in their names"`
		Domain     string      `query:"domain" doc:"only this host and all below it"`
		Robot      string      `query:"robot" doc:"only those that this one has; of those that wait, those that it found"`
		Unanswered bool        `query:"unanswered" doc:"only those whose last visit got no answer"`
		Grouped    bool        `query:"grouped" doc:"counted by registered domain"`
		After      string      `query:"after" doc:"the host or domain after which the list begins"`
	}
	hostsForm struct {
		Act    hosts.State `form:"act" enum:"accepted,refused"`
		Hosts  []string    `form:"host"`
		Match  bool        `form:"match" doc:"all that wait and match the three below"`
		Most   int         `form:"most" min:"0" doc:"nothing is decided if more match; 0: however many do"`
		Part   string      `form:"part"`
		Domain string      `form:"domain"`
		Robot  string      `form:"robot"`
	}
	intervalForm struct {
		Interval string `form:"interval"`
		Reason   string `form:"reason"`
	}
	pinForm struct {
		Robot  string `form:"robot"`
		Reason string `form:"reason"`
	}
	releaseForm struct {
		Act     string `form:"act" enum:"stop,go" required:"true"`
		Counter int64  `form:"counter" required:"true"`
		Percent int    `form:"percent" required:"true"`
		Why     string `form:"why"`
	}
)

var atBoard = webpage.Lead[route.None]("/board", route.Anybody, http.StatusMovedPermanently, "The board is at /board/", "To /board/").Under("operators")

// show mounts a page for operators of every role. name is that of the template's file, without
// .html. fill returns the template's data.
func show[In any](mount route.Mount, path, name, summary string, fill func(*http.Request) (any, error)) {
	webpage.Get[In](path, operators.Viewer, summary).Raw(mount, shown(parse(name), fill))
}

func shown(template webpage.Template, fill func(*http.Request) (any, error)) route.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		data, err := fill(r)
		if err != nil {
			return err
		}
		return webpage.Show(w, r, http.StatusOK, template, data)
	}
}

// form mounts a page's form, for operators whose role includes Worker. take carries the form out,
// and returns the path of the page to which it leads.
func form[In any](mount route.Mount, path string, act audit.Act, summary string, take func(*http.Request, In) (to string, err error)) {
	webpage.Form[In](path, operators.Worker, act, summary, "Done; back to the page").Raw(mount, func(w http.ResponseWriter, r *http.Request) error {
		in, err := route.Form[In](w, r)
		if err != nil {
			return err
		}
		to, err := take(r, in)
		if err != nil {
			return err
		}
		return webpage.SeeOther(w, to)
	})
}

// register mounts the pages for which this process has the data, or all pages.
func (b *board) register(mount route.Mount, all bool) {
	webpage.Get[route.None](Path, operators.Viewer, "The operators' pages: what is wrong, buffers, robots, transfer rates").
		Saying("Browsers log in at /login, with an operator's name and password, or the token as password.").Raw(mount, shown(overviewTemplate, b.overview))
	route.New[route.None, route.None](http.MethodGet, pathLive, operators.Viewer, audit.None, "What is under way and what the buffers hold, as it changes: server-sent events").
		Answering(http.StatusOK, "Events \"figures\" with parts of the page /board/").Sends("text/event-stream").Raw(mount, b.liveFigures)
	ListWrong.On(mount, b.listWrong)
	show[route.None](mount, pathTransfers, "rates", "Charts of transfer rates; parameters as of /v1/transfers/periods", b.transfers)
	if all || b.Audit != nil {
		show[route.None](mount, pathAudit, "audit", "The audit log; parameters as of /v1/audit", b.audit)
	}
	if all || b.Ingest != nil {
		show[batchesQuery](mount, pathBatches, "batches", "Batches of a state", b.batches)
		form[batchForm](mount, pathBatches, audit.Decide, "Release or discard batches in the quarantine, or take it back", b.decideBatches)
		show[firstLine](mount, pathBatches+"/{batch}", "batch", "One batch, with its hosts", b.batch)
		form[route.None](mount, pathPublish, audit.Publish, "Publish now, also outside the window", b.publish)
	}
	if all || b.Removals != nil {
		show[route.None](mount, pathRemovals, "removals", "What owners of sites ask for", b.removals)
		form[removalForm](mount, pathRemovals, audit.Decide, "Grant or refuse", b.decideRemoval)
	}
	b.registerReaders(mount, all)
	if all || b.Manager != nil {
		show[robotsQuery](mount, pathRobots, "robots", "The robots", b.robots)
		show[route.None](mount, pathRobots+"/{robot}", "robot", "One robot", b.robot)
		form[robotForm](mount, pathRobots+"/{robot}", audit.Order, "Give a robot an order", b.orderRobot)
		show[hostsQuery](mount, pathHosts, "hosts", "Hosts; those that wait for a decision, if nothing is asked for", b.hosts)
		b.registerHost(mount)
		form[hostsForm](mount, pathHosts, audit.Decide, "Accept or refuse hosts", b.decideHosts)
		show[firstLine](mount, pathLevelling, "levelling", "Tonight's plan against what the robots have done", b.levelling)
		show[firstLine](mount, pathReleases, "releases", "Releases of the robot's program", b.releases)
		form[releaseForm](mount, pathReleases, audit.Release, "Stop the roll-out of a release, or let it go on", b.rollOut)
	}
	if all || b.Library != nil {
		show[firstLine](mount, pathStore, "store", "Editions, the next publication, store and disks", b.store)
	}
	if all || b.Watches != nil {
		show[afterLine](mount, pathWatches, "watches", "Watches whose changes could not be delivered", b.watches)
	}
}

// Routes returns all pages, for the API description.
func Routes() []*route.Route {
	return append(route.List(func(mount route.Mount) { (&board{Options: Options{Ingest: new(ingest.Room)}}).register(mount, true) }), atBoard.Route)
}

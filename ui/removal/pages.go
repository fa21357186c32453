package removal

import (
	"crypto/subtle"
	_ "embed"
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve/httpd/guard"
)

// Path is the path of the form.
const Path = "/removal"

//go:embed form.html
var formText string

//go:embed request.html
var requestText string

var (
	formTemplate    = webpage.Parse(formText)
	requestTemplate = webpage.Parse(requestText)
)

// Queries and forms of the pages.
type (
	fillQuery struct {
		Host string `query:"host" doc:"fills it in"`
	}
	// ask checks the values of an askForm itself, so that the page can say what is wrong.
	askForm struct {
		Wish   Wish   `form:"wish" doc:"removal or exclusion"`
		Kind   Kind   `form:"kind" doc:"host, prefix or domain"`
		Target string `form:"target"`
		Email  string `form:"email"`
		Reason string `form:"reason"`
	}
	proofForm struct {
		Act     string `form:"act" enum:"send,code,file,dns" required:"true"`
		Address string `form:"address"`
		Code    string `form:"code"`
	}
)

const (
	ofAsker = Path + "/{id:[a-z0-9]+}/{secret:[a-z0-9]+}"
	html    = "text/html"
)

// Pages for askers.
var (
	showForm = webpage.Get[fillQuery](Path, route.Anybody, "The form by which the owner of a site asks for removal")
	takeForm = webpage.Form[askForm](Path, route.Anybody, audit.None, "Asks", "To the page of the request").
			Also(http.StatusBadRequest, html, "The form, and what is wrong with it").Also(http.StatusTooManyRequests, html, "The form: too many requests today")
	showOwn = webpage.Get[route.None](ofAsker, route.Anybody, "One request: how to prove it, and what became of it")
	prove   = webpage.Form[proofForm](ofAsker, route.Anybody, audit.None, "One step of a proof", "Done; back to the page").Also(http.StatusConflict, html, "The page, and what is missing")
)

// Register mounts the pages for askers.
func (d *Desk) Register(r *mux.Router, g *guard.Guard) {
	r.Handle(Path, problem.Within(g.Public(d.showForm))).Methods(http.MethodGet, http.MethodHead)
	r.Handle(Path, problem.Within(g.Public(d.takeForm))).Methods(http.MethodPost)
	r.Handle(ofAsker, problem.Within(g.Public(d.showRequest))).Methods(http.MethodGet, http.MethodHead)
	r.Handle(ofAsker, g.Public(d.takeProof)).Methods(http.MethodPost)
}

// formPage is the form, with the values entered so far.
type formPage struct {
	webpage.Page
	askForm
	Wrong string
}

func (d *Desk) showForm(w http.ResponseWriter, r *http.Request) error {
	p := formPage{Page: d.opt.Site.For(r), askForm: askForm{Wish: Remove, Kind: Host, Target: r.URL.Query().Get("host")}}
	return webpage.Show(w, r, http.StatusOK, formTemplate, p)
}

func (d *Desk) takeForm(w http.ResponseWriter, r *http.Request) error {
	in, err := route.Form[askForm](w, r)
	if err != nil {
		return err
	}
	p := formPage{Page: d.opt.Site.For(r), askForm: in}
	audit.Note(r.Context(), audit.Row{Act: audit.Add, Object: "removal of " + p.Target, Reason: p.Reason})
	made, err := d.ask(r.Context(), in, p.Lang, r.RemoteAddr)
	if err == nil {
		return webpage.SeeOther(w, made.path())
	}
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, errTarget):
		p.Wrong = p.T("This is not a host, a URL or a domain: %s", p.Target)
	case errors.Is(err, errPage):
		p.Wrong = p.T("This is a page and not a host. Choose pages, or write the host alone.")
	case errors.Is(err, errWhole):
		p.Wrong = p.T("This is a whole host. Choose host, or write the address at which the pages begin.")
	case errors.Is(err, errNotPublic):
		p.Wrong = p.T("This is no name or address of the public Internet: %s", p.Target)
	case errors.Is(err, errEmail):
		p.Wrong = p.T("This is not a mail address: %s", p.Email)
	case errors.Is(err, errWords):
		p.Wrong = p.T("Write a reason of at most 2,000 bytes.")
	case errors.Is(err, errMany):
		status, p.Wrong = http.StatusTooManyRequests, p.T("There are too many requests from here or about this site today. Try again tomorrow, or write to the archive.")
	default:
		return err
	}
	return webpage.Show(w, r, status, formTemplate, p)
}

// requestPage is the page of one request.
type requestPage struct {
	webpage.Page
	Request   *Request
	What      string
	Mails     bool     // whether the asker gets mails
	Addresses []string // addresses to which codes can be sent
	Token     string
	FileURL   string
	Record    string // name of the DNS record; empty: the target is an IP address
	SentTo    string // address to which the last code was sent
	Wrong     string
}

// linked returns the request to which the link in r leads. If the link's ID or secret is wrong,
// linked fails with a 404.
func (d *Desk) linked(r *http.Request) (*Request, error) {
	found, err := d.Get(r.Context(), mux.Vars(r)["id"])
	if err == nil && subtle.ConstantTimeCompare([]byte(found.secret), []byte(mux.Vars(r)["secret"])) != 1 {
		err = ErrUnknown
	}
	if errors.Is(err, ErrUnknown) {
		return nil, problem.New(http.StatusNotFound, "not_found", ErrUnknown.Error())
	}
	return found, err
}

func (d *Desk) showRequest(w http.ResponseWriter, r *http.Request) error {
	found, err := d.linked(r)
	if err != nil {
		return err
	}
	return d.show(w, r, http.StatusOK, found, nil)
}

// show shows a request. failed is the error of the last step, or nil.
func (d *Desk) show(w http.ResponseWriter, r *http.Request, status int, found *Request, failed error) error {
	p := requestPage{Page: d.opt.Site.For(r), Request: found, Token: found.token()}
	p.What = what(p.Page, found)
	t := found.target()
	if p.Mails = d.opt.Mails.Sends(); p.Mails {
		p.Addresses = t.addresses()
	}
	if d.now().Before(found.codeUntil) {
		p.SentTo = found.codeTo
	}
	p.FileURL = "http://" + t.host + wellKnown
	if !t.address().IsValid() {
		p.Record = recordName + t.name()
	}
	p.Wrong = wrong(p.Page, failed)
	if failed != nil && p.Wrong == "" {
		return failed
	}
	w.Header().Set("X-Robots-Tag", "noindex")
	return webpage.Show(w, r, status, requestTemplate, p)
}

// wrong says why a proof failed, or "" if the service is at fault.
func wrong(p webpage.Page, err error) string {
	switch {
	case errors.Is(err, ErrDecided):
		return p.T("The request is decided already, or has expired.")
	case errors.Is(err, errCode):
		return p.T("The code is wrong, older than 24 hours, or was used.")
	case errors.Is(err, errAddress):
		return p.T("Codes are sent to the addresses in the list only.")
	case errors.Is(err, errCodes):
		return p.T("No more codes are sent for this request or site today. Use the file or the DNS record.")
	case errors.Is(err, errLooks):
		return p.T("It was looked for a moment ago. Wait a little, then try again.")
	case errors.Is(err, errNoRecord):
		return p.T("No TXT record of this name has the token. New records may take an hour to be seen.")
	case errors.Is(err, errNoToken):
		return p.T("The file is not there, or no line of it is the token.")
	case errors.Is(err, errPrivate):
		return p.T("The site has no public address.")
	case errors.Is(err, errLeaves):
		return p.T("The site redirects to another host. Put the file on this one.")
	case errors.Is(err, errNoAnswer):
		return p.T("The site does not answer.")
	case errors.Is(err, errNoMails):
		return p.T("This service sends no mails. Use the file or the DNS record.")
	}
	return ""
}

// takeProof takes one step of a proof.
func (d *Desk) takeProof(w http.ResponseWriter, r *http.Request) error {
	found, err := d.linked(r)
	if err != nil {
		return err
	}
	in, err := route.Form[proofForm](w, r)
	if err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Act: audit.Change, Object: "proof of removal " + found.ID, Reason: in.Act})
	if err := audit.Begin(r.Context()); err != nil {
		return err
	}
	switch in.Act {
	case "send":
		err = d.sendCode(r.Context(), found.ID, in.Address)
	case "code":
		err = d.enterCode(r.Context(), found.ID, in.Code)
	case "file":
		err = d.lookForFile(r.Context(), found.ID)
	case "dns":
		err = d.lookForRecord(r.Context(), found.ID)
	}
	if err == nil {
		return webpage.SeeOther(w, found.path())
	}
	return d.show(w, r, http.StatusConflict, found, err)
}

package board

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve/httpd"
)

// list is a page with a list that operators maintain, or with one of its entries, and with the
// forms that change it. Its template is list.html with a file that defines "heading" and
// "contents".
type list struct {
	board    *board
	path     string
	template webpage.Template
	fill     func(r *http.Request, p *listPage) error
}

// listPage is the data of a list's page.
type listPage struct {
	page
	List                     any            // the data that fill has found
	Query                    string         // a part of the names to list; empty: all
	Given                    url.Values     // the values in the main form
	Done                     bool           // a form was carried out just now
	Wrong                    string         // why the last form failed
	Secret                   string         // a new password, shown only this time
	HasDesk                  bool           // owners of sites can ask for a removal here
	HasTakedowns, HasLibrary bool           // whether this process takes archives down, and shows them
	Self                     string         // path of the page
	Live                     map[string]int // downloads under way in this process, by account
	Pager                    pager
}

// listQuery is the query of a list's page.
type listQuery struct {
	Q    string `query:"q" doc:"a part of a name"`
	From int    `query:"from" doc:"the first line, counted from 0"`
	Done string `query:"done" doc:"a form was carried out"`
}

// list mounts a page with a list. name is the name of the template's file, without .html.
func (b *board) list(mount route.Mount, path, name, summary string, fill func(*http.Request, *listPage) error) *list {
	l := &list{b, path, webpage.ParseFiles(pages, "common.html", "list.html", name+".html"), fill}
	webpage.Get[listQuery](path, operators.Viewer, summary).Raw(mount, func(w http.ResponseWriter, r *http.Request) error {
		return l.show(w, r, http.StatusOK, listPage{})
	})
	return l
}

func (l *list) show(w http.ResponseWriter, r *http.Request, status int, p listPage) error {
	q := r.URL.Query()
	p.page, p.HasDesk, p.Query, p.Done, p.Self = l.board.page(r), l.board.Removals != nil, strings.TrimSpace(q.Get("q")), q.Has("done"), l.at(r)
	if p.Given == nil {
		p.Given = url.Values{}
	}
	if r.Method != http.MethodGet {
		p.Path = p.Self // path of the page in the other language
	}
	if err := l.fill(r, &p); err != nil {
		return explained(err)
	}
	return webpage.Show(w, r, status, l.template, p)
}

// at returns the page's path, with the name in the request's path.
func (l *list) at(r *http.Request) string {
	return strings.Replace(l.path, "{name}", url.PathEscape(mux.Vars(r)["name"]), 1)
}

// does mounts a form that carries out an operation, with the operation's role and its act in the
// audit log. read makes the operation's request from the form and from the name in the path. If the
// operation fails, the page is shown again with the reason. If secret is given and returns a text
// for the answer, the page is shown again with that text. Otherwise the form leads to the page of
// then or, if that is nil, back to its own page.
func does[Form, In, Out any](l *list, mount route.Mount, path string, op route.Op[In, Out], do func(context.Context, In) (Out, error), read func(f Form, name string) (In, error), secret func(Out) string, then *list) {
	form := webpage.Form[Form](path, op.For, audit.Act(op.Act), op.Summary, "Done; to a page").Also(http.StatusOK, "text/html", "The page, with a new password").Also(http.StatusUnprocessableEntity, "text/html", "The page says what is wrong")
	form.Raw(mount, func(w http.ResponseWriter, r *http.Request) error {
		in, err := route.Form[Form](w, r)
		name := mux.Vars(r)["name"]
		var ask In
		if err == nil {
			if ask, err = read(in, name); err != nil {
				err = problem.New(http.StatusUnprocessableEntity, "bad_form", err.Error())
			}
		}
		if err != nil {
			audit.Note(r.Context(), audit.Row{Object: name, Reason: err.Error()})
		}
		var answer Out
		if err == nil {
			answer, err = do(r.Context(), ask)
		}
		w.Header().Del("Location") // it names the new object's path in the API
		var no *problem.Error
		if err = explained(err); errors.As(err, &no) && no.Status < http.StatusInternalServerError {
			p := listPage{Wrong: no.Detail}
			if path == l.path {
				p.Given = r.PostForm
			}
			return l.show(w, r, no.Status, p)
		}
		if err != nil {
			return err
		}
		if secret != nil && secret(answer) != "" {
			w.Header().Set("Cache-Control", "no-store")
			return l.show(w, r, http.StatusOK, listPage{Secret: secret(answer)})
		}
		return webpage.SeeOther(w, cmp.Or(then, l).at(r)+"?done=1")
	})
}

// explained turns an error of a list's operation into an HTTP problem. It returns other errors
// unchanged.
func explained(err error) error { return hostProblem(operators.Explain(httpd.Explain(err))) }

// fillLines sets the page's lines to those whose names contain the query, in any case.
func fillLines[T any](r *http.Request, p *listPage, all []T, name func(T) string) {
	found := slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !strings.Contains(strings.ToLower(name(one)), strings.ToLower(p.Query)) })
	p.List, p.Pager = paged(r, found)
}

// field is a field of a form.
type field struct {
	Name, Label, Value, Hint string
	Type                     string // type of the input
	Required                 bool
}

// Field makes a field of the page's main form. hint is an example or "". words set its type and
// whether it is required.
func (p listPage) Field(name, label, hint string, words ...string) field {
	f := field{Name: name, Label: label, Value: p.Given.Get(name), Hint: hint, Type: "text"}
	for _, word := range words {
		if word == "required" {
			f.Required = true
		} else {
			f.Type = word
		}
	}
	return f
}

// removing is the data of a form for removing something.
type removing struct {
	webpage.Page
	Path, Name string
}

// Removing returns the data of a form that removes the thing called name by a POST to path.
func (p listPage) Removing(path, name string) removing { return removing{p.Page, path, name} }

// listed is the number of lines on one page of a list.
const listed = 100

// pager has the links from one page of a list to others.
type pager struct {
	From, To, Total int    // lines, counted from 1; Total is 0 if it is not known
	First, Next     string // paths; empty: there is none
}

// paged returns the part of a list that begins with the line in the query from=, counted from 0.
func paged[T any](r *http.Request, all []T) ([]T, pager) {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil || from < 0 || from >= len(all) {
		from = 0
	}
	to := min(from+listed, len(all))
	p := pager{From: from + 1, To: to, Total: len(all)}
	if from > 0 {
		p.First = withQuery(r, "from", "")
	}
	if to < len(all) {
		p.Next = withQuery(r, "from", strconv.Itoa(to))
	}
	return all[from:to], p
}

// after returns one page of lines. lines begins after the line that the query's after= names, and
// has one line more than a page if there is a next page. id returns a line's name.
func after[T any](r *http.Request, lines []T, id func(T) string) ([]T, pager) {
	var p pager
	if r.URL.Query().Get("after") != "" {
		p.First = withQuery(r, "after", "")
	}
	if len(lines) > listed {
		lines = lines[:listed]
		p.Next = withQuery(r, "after", id(lines[listed-1]))
	}
	return lines, p
}

// withQuery returns the request's path with another value for a key of its query; an empty value
// leaves the key out.
func withQuery(r *http.Request, key, value string) string {
	q := r.URL.Query()
	q.Del(key)
	if value != "" {
		q.Set(key, value)
	}
	to := url.URL{Path: r.URL.Path, RawQuery: q.Encode()}
	return to.String()
}

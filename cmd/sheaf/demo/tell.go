package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/transfers"
)

// Event is a step of the demo.
type Event struct {
	Kind     string        `json:"event"` // ready, collecting, progress, collected, waiting, published, quarantined
	Text     string        `json:"text"`  // for people
	Day      int           `json:"day,omitempty"`
	Edition  string        `json:"edition,omitempty"`
	Pages    int           `json:"pages,omitempty"`
	Took     time.Duration `json:"took,omitempty"`    // nanoseconds
	HTTP     string        `json:"http,omitempty"`    // URL
	FTP      string        `json:"ftp,omitempty"`     // host:port
	Account  string        `json:"account,omitempty"` // for HTTP and FTP
	Password string        `json:"password,omitempty"`
}

// Report is the result of the demo: what was transferred, what is published, and how to fetch it.
type Report struct {
	HTTP             string                `json:"http"`
	FTP              string                `json:"ftp"`
	Account          string                `json:"account"`
	Password         string                `json:"password"`
	Operator         string                `json:"operator"`
	OperatorPassword string                `json:"operator_password"`
	Data             string                `json:"data"`
	Transfers        []transfers.TotalLine `json:"transfers"`
	Editions         []api.Edition         `json:"editions"`
}

// Teller is told what the demo does. Its methods are called concurrently; the demo waits until they
// return.
type Teller interface {
	Tell(Event)
	Report(Report)
}

// JSON returns a Teller that writes lines of JSON. The line of the report has no "event".
func JSON(w io.Writer) Teller { return jsonTeller{json.NewEncoder(&locked{w: w})} }

type jsonTeller struct{ e *json.Encoder }

func (t jsonTeller) Tell(e Event)    { t.e.Encode(e) }
func (t jsonTeller) Report(r Report) { t.e.Encode(r) }

// Text returns a Teller that writes for people.
func Text(w io.Writer) Teller { return textTeller{&locked{w: w}} }

type textTeller struct{ w io.Writer }

func (t textTeller) Tell(e Event) { fmt.Fprintln(t.w, e.Text) }

func (t textTeller) Report(r Report) {
	fmt.Fprintf(t.w, `
Look at it

  %[1]s/        what everybody sees; log in at %[1]s/login
    as a reader      %[2]s  with password  %[3]s
    as an operator   %[4]s  with password  %[5]s
  %[1]s/board/  the operators' board; a batch in the quarantine waits there for a decision
`, r.HTTP, r.Account, r.Password, r.Operator, r.OperatorPassword)
	fmt.Fprint(t.w, "\nTransfer rates\n\n")
	transfers.WriteTable(t.w, r.Transfers)
	fmt.Fprint(t.w, "\nPublished\n\n")
	for _, e := range r.Editions {
		fmt.Fprintf(t.w, "  edition %-12s %d hosts, %d records, %d bytes; all of jp: /days/%s/jp\n", e.Name, e.Hosts, e.Records, e.Bytes, catalog.DayOf(e.Name))
	}
	fmt.Fprintf(t.w, `
Fetch it

  HTTP   %[1]s/pub/
  FTP    ftp://%[2]s/
  as     %[3]s with password %[4]s

  lftp -u %[3]s,%[4]s ftp://%[2]s -e 'mirror /jp; exit'
  wget -c --user %[3]s --password %[4]s %[1]s/pub/jp/example/jlha/current.tar.gz
  curl -C - -u %[3]s:%[4]s -O %[1]s/a/jlha.example.jp.tar.gz
  tar xzf jlha.example.jp.tar.gz

`, r.HTTP, r.FTP, r.Account, r.Password)
}

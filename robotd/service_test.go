package robotd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive"
	"sheaf/internal/preference"
	"sheaf/internal/wire"
)

// service plays the manager and the ingest of a Sheaf: enough of both to drive a
// robot, and strict about what the robot sends.
type service struct {
	*httptest.Server
	t   testing.TB
	key ed25519.PrivateKey

	mu         sync.Mutex // guards all below
	robotKey   ed25519.PublicKey
	generation int64
	seeds      []string
	restart    bool
	away       bool          // answers nothing but 503
	behind     time.Duration // its clock, of the machine's
	quarantine bool          // the next batch
	breaks     int           // uploads to break off half-way

	calls    map[string]int
	uploads  map[string]*bytes.Buffer
	batches  []*received
	receipts map[string]*wire.Receipt
	logs     map[string][]wire.LogLine
	found    []string

	beats  []wire.Heartbeat
	orders func(wire.Heartbeat) wire.Orders // what a heartbeat is answered; nil: nothing to do
}

// received is a batch that arrived whole and was verified.
type received struct {
	manifest *wire.Manifest
	digest   string
	cells    map[string][]archive.Cell // by host, without robots.txt
	rules    map[string][]archive.Cell // likewise, robots.txt only
}

const token = "one-time"

func newService(t testing.TB, seeds ...string) *service {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{
		t: t, key: key, generation: 1, seeds: seeds, calls: make(map[string]int),
		uploads: make(map[string]*bytes.Buffer), receipts: make(map[string]*wire.Receipt), logs: make(map[string][]wire.LogLine),
	}
	r := mux.NewRouter()
	r.HandleFunc(wire.PathJoin, s.join).Methods("POST")
	for path, h := range map[string]http.HandlerFunc{
		wire.PathList: s.list, wire.PathIsRestart: s.isRestart, wire.PathRecord: s.record, wire.PathSubmitLog: s.submitLog,
		wire.PathHeartbeat: s.heartbeat, wire.PathAddresses: func(http.ResponseWriter, *http.Request) {},
		wire.PathSubscribe: func(http.ResponseWriter, *http.Request) {}, wire.PathUnsubscribe: func(http.ResponseWriter, *http.Request) {},
		wire.PathUploads: s.create, wire.PathUploads + "{id}": s.upload,
		wire.PathManifest: s.manifest, wire.PathReceipt: s.receipt,
	} {
		r.HandleFunc(path, s.guard(path, h))
	}
	s.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		s.Close()
		s.checkChain()
	})
	return s
}

func (s *service) guard(path string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[path]++
		if robot, secret, _ := r.BasicAuth(); robot != "r1" || secret != "s3cret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if s.behind != 0 {
			w.Header().Set("Date", time.Now().Add(-s.behind).UTC().Format(http.TimeFormat))
		}
		if s.away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		h(w, r)
	}
}

func (s *service) join(w http.ResponseWriter, r *http.Request) {
	var ask wire.JoinRequest
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Token != token {
		w.WriteHeader(http.StatusForbidden)
		json.NewEncoder(w).Encode(wire.Problem{Title: "token not valid", Detail: "ask the operator for a new one"})
		return
	}
	s.mu.Lock()
	s.robotKey = ask.PublicKey
	s.mu.Unlock()
	json.NewEncoder(w).Encode(wire.JoinResponse{Robot: "r1", Secret: "s3cret", ServerKey: s.key.Public().(ed25519.PublicKey)})
}

func (s *service) list(w http.ResponseWriter, r *http.Request) {
	etag := fmt.Sprintf(`"g%d"`, s.generation)
	w.Header().Set("ETag", etag)
	w.Header().Set(wire.HeaderGeneration, fmt.Sprint(s.generation))
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	wire.WriteHostList(w, func(yield func(wire.HostLine) bool) {
		for _, u := range s.seeds {
			if !yield(wire.HostLine{URL: u}) {
				return
			}
		}
	})
}

// assign gives the robot another list.
func (s *service) assign(seeds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.seeds = seeds
}

func (s *service) isRestart(w http.ResponseWriter, _ *http.Request) {
	if s.restart {
		s.restart = false
		fmt.Fprintln(w, "RESTART")
	}
}

func (s *service) heartbeat(w http.ResponseWriter, r *http.Request) {
	var hb wire.Heartbeat
	if err := json.NewDecoder(r.Body).Decode(&hb); err != nil || !hb.Phase.Valid() {
		s.t.Errorf("heartbeat: %+v, %v", hb, err)
	}
	s.beats = append(s.beats, hb)
	if s.orders == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	json.NewEncoder(w).Encode(s.orders(hb))
}

func (s *service) record(_ http.ResponseWriter, r *http.Request) {
	for line, err := range wire.ReadHostList(r.Body, 1<<20) {
		if err != nil {
			s.t.Errorf("P2: %v", err)
			return
		}
		s.found = append(s.found, line.URL)
	}
}

func (s *service) submitLog(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil { // the robot is stopped, or killed, and sends it again
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	name, packed, _ := bytes.Cut(data, []byte("\n"))
	if _, twice := s.logs[string(name)]; twice {
		s.t.Errorf("P3: log %s was sent twice", name)
	}
	for line, err := range wire.ReadLogLines(bytes.NewReader(packed), 1<<26) {
		if err != nil {
			s.t.Errorf("P3: %v", err)
		}
		s.logs[string(name)] = append(s.logs[string(name)], line)
	}
}

func (s *service) create(w http.ResponseWriter, r *http.Request) {
	key, value, _ := strings.Cut(r.Header.Get("Upload-Metadata"), " ")
	batch, err := base64.StdEncoding.DecodeString(value)
	if r.Method != http.MethodPost || key != "batch" || err != nil || !wire.BatchID(batch).Valid() {
		s.t.Errorf("%s uploads: Upload-Metadata %q", r.Method, r.Header.Get("Upload-Metadata"))
	}
	s.uploads[string(batch)] = new(bytes.Buffer)
	w.Header().Set("Location", wire.PathUploads+string(batch))
	w.WriteHeader(http.StatusCreated)
}

func (s *service) upload(w http.ResponseWriter, r *http.Request) {
	have := s.uploads[mux.Vars(r)["id"]]
	if have == nil {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPatch {
		if r.Header.Get("Upload-Offset") != strconv.Itoa(have.Len()) {
			w.WriteHeader(http.StatusConflict)
			return
		}
		body := io.Reader(r.Body)
		if s.breaks > 0 {
			s.breaks--
			io.CopyN(have, body, r.ContentLength/2)
			panic(http.ErrAbortHandler)
		}
		io.Copy(have, body)
	}
	w.Header().Set("Upload-Offset", strconv.Itoa(have.Len()))
	w.WriteHeader(http.StatusNoContent)
}

func (s *service) manifest(w http.ResponseWriter, r *http.Request) {
	id := mux.Vars(r)["batch"]
	signed, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("manifest: %v", err)
	}
	m, err := wire.OpenManifest(signed, s.robotKey)
	if err != nil {
		s.t.Errorf("manifest %s: %v", id, err)
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	receipt := &wire.Receipt{Batch: m.Batch, SHA256: m.SHA256, State: wire.StatePublished, Edition: "20261121", At: time.Now()}
	if s.quarantine {
		s.quarantine = false
		receipt.State, receipt.Reason, receipt.Detail = wire.StateQuarantined, wire.ReasonClock, "the test wants it so"
	}
	s.receipts[id] = receipt
	got, err := verify(s.uploads[id].Bytes(), m)
	if err != nil {
		s.t.Errorf("batch %s: %v", id, err)
		return
	}
	got.digest = wire.Digest(signed)
	s.batches = append(s.batches, got)
}

// checkChain sees to it that each manifest names the one before it. Of several batches that wait
// the later may arrive first.
func (s *service) checkChain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := func(b *received) (n int) {
		id := string(b.manifest.Batch)
		n, _ = strconv.Atoi(id[strings.LastIndex(id, "-")+1:])
		return n
	}
	made := slices.SortedFunc(slices.Values(s.batches), func(a, b *received) int { return number(a) - number(b) })
	for i, b := range made {
		if i > 0 && number(b) == number(made[i-1])+1 && b.manifest.Previous != made[i-1].digest {
			s.t.Errorf("batch %s does not name the manifest before it", b.manifest.Batch)
		}
	}
}

// verify checks a batch as ingest does.
func verify(data []byte, m *wire.Manifest) (*received, error) {
	if int64(len(data)) != m.Size || wire.Digest(data) != m.SHA256 {
		return nil, fmt.Errorf("%d bytes of sha256 %s arrived; the manifest says %d of %s", len(data), wire.Digest(data), m.Size, m.SHA256)
	}
	got := &received{manifest: m, cells: make(map[string][]archive.Cell), rules: make(map[string][]archive.Cell)}
	end := int64(0)
	for _, h := range m.Hosts {
		end = h.Offset + h.Length
		part := data[h.Offset:end]
		sum, err := archive.VerifyRange(bytes.NewReader(part), archive.VerifyOptions{Host: h.Name})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		if sum.Records != h.Records || sum.Revisits != h.Revisits {
			return nil, fmt.Errorf("%s: the manifest counts %d records and %d revisits, there are %d and %d", h.Name, h.Records, h.Revisits, sum.Records, sum.Revisits)
		}
		idx, err := archive.ReadIndexAt(context.Background(), archive.FileSource(bytes.NewReader(part), 0), sum.IndexOffset, sum.IndexLength)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		for _, c := range idx.Cells {
			if preference.IsRobotsTxt(c.URL) {
				got.rules[h.Name] = append(got.rules[h.Name], c)
			} else {
				got.cells[h.Name] = append(got.cells[h.Name], c)
			}
		}
	}
	_, err := archive.VerifyBatchTail(bytes.NewReader(data[end:]))
	return got, err
}

func (s *service) receipt(w http.ResponseWriter, r *http.Request) {
	receipt := s.receipts[mux.Vars(r)["batch"]]
	if receipt == nil {
		http.NotFound(w, r)
		return
	}
	signed, err := receipt.Sign(s.key)
	if err != nil {
		s.t.Error(err)
	}
	w.Write(signed)
}

// all returns the batches that have arrived.
func (s *service) all() []*received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

// cells returns the pages that arrived of a host in the given batch.
func (s *service) cells(batch int, host string) map[string]archive.Cell {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if batch >= len(s.batches) {
		s.t.Fatalf("%d batches arrived, want more than %d", len(s.batches), batch)
	}
	cells := make(map[string]archive.Cell)
	for _, c := range s.batches[batch].cells[host] {
		if _, twice := cells[c.URL]; twice {
			s.t.Errorf("batch %d holds %s twice", batch, c.URL)
		}
		cells[c.URL] = c
	}
	return cells
}

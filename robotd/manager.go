package robotd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/wire"
)

// manager speaks the paper's P1 to P5 with the service, under /v1/robots.
type manager struct {
	base   string
	robot  string
	secret string
	client *http.Client
	clock  clock
}

// Bounds of the talk with the manager.
const (
	askTimeout  = 5 * time.Minute
	maxListSize = 256 << 20 // bytes of a host list, inflated
)

// assignment is the list of hosts (P1) with what is needed to ask for changes only.
type assignment struct {
	Generation int64    `json:"generation"`
	ETag       string   `json:"etag"`
	URLs       []string `json:"urls"` // seeds: usually the hosts' top pages

	Shares map[string]wire.Share `json:"shares,omitempty"` // by host: those that are with several robots
	Depths map[string]int        `json:"depths,omitempty"` // by URL: links that lead to it, where not 0
}

// list asks for the hosts (P1). It returns nil where nothing has changed since
// the assignment that has the given ETag.
func (m *manager) list(ctx context.Context, etag string) (*assignment, error) {
	header := http.Header{"Accept": {"application/gzip"}, wire.HeaderAccept: {wire.AcceptShares}}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	resp, err := m.do(ctx, http.MethodGet, wire.PathList, header, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil, nil
	}
	a := &assignment{ETag: resp.Header.Get("ETag")}
	a.Generation, err = strconv.ParseInt(resp.Header.Get(wire.HeaderGeneration), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("list: header %s: %w", wire.HeaderGeneration, err)
	}
	for line, err := range wire.ReadHostList(resp.Body, maxListSize) {
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		a.add(line)
	}
	return a, nil
}

// record reports hosts that were found (P2).
func (m *manager) record(ctx context.Context, lines []wire.HostLine) error {
	var body bytes.Buffer
	if err := wire.WriteHostList(&body, slices.Values(lines)); err != nil {
		return err
	}
	return m.tell(ctx, wire.PathRecord, &body)
}

// submitLog hands in a log of the collection (P3), as wire.WriteLog writes it.
func (m *manager) submitLog(ctx context.Context, log io.Reader) error {
	return m.tell(ctx, wire.PathSubmitLog, log)
}

// isRestart asks whether the manager wants the list dropped and fetched anew (P4).
func (m *manager) isRestart(ctx context.Context) (bool, error) {
	resp, err := m.do(ctx, http.MethodGet, wire.PathIsRestart, nil, nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return false, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first) == "RESTART", nil
}

func (m *manager) subscribe(ctx context.Context) error { return m.tell(ctx, wire.PathSubscribe, nil) }
func (m *manager) unsubscribe(ctx context.Context) error {
	return m.tell(ctx, wire.PathUnsubscribe, nil)
}

func (m *manager) tell(ctx context.Context, path string, body io.Reader) error {
	resp, err := m.do(ctx, http.MethodPost, path, nil, body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// do asks the manager; every answer but success and "not modified" is an error.
// The answer's body must be read within askTimeout.
func (m *manager) do(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	url := m.base + strings.Replace(path, "{robot}", m.robot, 1)
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		cancel()
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	req.SetBasicAuth(m.robot, m.secret)
	sent := time.Now()
	resp, err := m.client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	m.clock.sample(sent, time.Now(), resp.Header)
	resp.Body = &cancelBody{resp.Body, cancel}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // what can be read of it helps
	return nil, fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, strings.TrimSpace(string(said)))
}

// cancelBody ends its request's context when it is closed.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

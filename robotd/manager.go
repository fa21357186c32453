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

// manager speaks the paper's P1 to P5 with the service, under /v1/robots, by any of its URLs.
type manager struct {
	at     *endpoints
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
	return m.tell(ctx, wire.PathRecord, bytesOf(body.Bytes()))
}

// submitLog hands in a log of the collection (P3), as wire.WriteLog writes it. The manager
// counts one that comes twice once.
func (m *manager) submitLog(ctx context.Context, log content) error {
	return m.tell(ctx, wire.PathSubmitLog, log)
}

// isRestart asks whether the manager wants the list of the generation dropped and fetched anew
// (P4). It says so until a newer one is asked for, so that an answer may be lost.
func (m *manager) isRestart(ctx context.Context, generation int64) (bool, error) {
	header := http.Header{wire.HeaderGeneration: {strconv.FormatInt(generation, 10)}}
	resp, err := m.do(ctx, http.MethodGet, wire.PathIsRestart, header, nil)
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

func (m *manager) tell(ctx context.Context, path string, body content) error {
	resp, err := m.do(ctx, http.MethodPost, path, nil, body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// content gives a request's body, anew for each URL that is tried.
type content func() (io.Reader, error)

func bytesOf(data []byte) content {
	return func() (io.Reader, error) { return bytes.NewReader(data), nil }
}

// do asks the manager by the first of its URLs that answers; every answer but success and
// "not modified" is an error. The answer's body must be read within askTimeout.
func (m *manager) do(ctx context.Context, method, path string, header http.Header, body content) (resp *http.Response, err error) {
	err = m.at.try(func(base string) error {
		resp, err = m.ask(ctx, method, base+strings.Replace(path, "{robot}", m.robot, 1), header, body)
		return err
	})
	return resp, err
}

// ask makes one request. Its error is an *unreachable where another URL may be tried.
func (m *manager) ask(ctx context.Context, method, url string, header http.Header, body content) (*http.Response, error) {
	var data io.Reader
	if body != nil {
		var err error
		if data, err = body(); err != nil {
			return nil, err
		}
		if c, ok := data.(io.Closer); ok {
			defer c.Close() // who writes it ends with the request
		}
	}
	timed, cancel := context.WithTimeout(ctx, askTimeout)
	req, err := http.NewRequestWithContext(timed, method, url, data)
	if err != nil {
		cancel()
		return nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	req.SetBasicAuth(m.robot, m.secret)
	sent := time.Now()
	resp, err := m.client.Do(req)
	if err != nil {
		cancel()
		if ctx.Err() == nil {
			err = &unreachable{err: err}
		}
		return nil, err
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotModified {
		m.clock.sample(sent, time.Now(), resp.Header)
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // what can be read of it helps
	return nil, answerError(resp, string(said))
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

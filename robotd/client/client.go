// Package client speaks with the manager, the service that gives the robot its hosts: requests P1
// to P5 of paper 001, heartbeats, watches and reports of the robot's program. A robot may have
// several URLs of the manager, any of which will do.
//
// List has the hosts that the manager has assigned to the robot. Assignment keeps the list in a
// file. Identity has the robot's credentials and its key.
//
// What the robot reports outside heartbeats waits in files. CollectionLog has the log of the
// collection. Found has the URLs that the robot found and that other robots collect.
package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// Client makes the robot's requests to the manager. Its methods may be called concurrently.
type Client struct {
	at     *endpoints
	robot  string
	secret string
	http   *http.Client
	clock  clock
	page   atomic.Value // string: URL of the robot's page; nil: not known yet
}

// Limits of a request.
const (
	askTimeout  = 5 * time.Minute // without a byte of a long body either way
	maxListSize = 256 << 20       // bytes of a host list, inflated
)

// New returns a client for the manager at any of the URLs, in the order of preference.
func New(urls []string, robot, secret string, client *http.Client) *Client {
	return &Client{at: newEndpoints(urls), robot: robot, secret: secret, http: client}
}

// URL returns the URL that is asked first.
func (c *Client) URL() string { return c.at.current() }

// String lists the URLs, with blanks between.
func (c *Client) String() string { return c.at.String() }

// Targets returns the state of each URL.
func (c *Client) Targets() []config.TargetState { return c.at.describe() }

// Page returns the URL of the manager's page about this robot; "" until an answer has named it.
func (c *Client) Page() string {
	page, _ := c.page.Load().(string)
	return page
}

// notePage takes the URL of the robot's page from an answer.
func (c *Client) notePage(resp *http.Response) {
	if ref := resp.Header.Get(wire.HeaderPage); ref != "" {
		if page, err := resp.Request.URL.Parse(ref); err == nil && (page.Scheme == "https" || page.Scheme == "http") {
			c.page.Store(page.String())
		}
	}
}

// Clock returns how this machine's clock differs from the manager's; nil: not known yet.
func (c *Client) Clock() *wire.Clock { return c.clock.measured() }

// Offset returns how far this machine's clock is ahead of the manager's. It is zero if the
// difference is unknown, or not larger than its error.
func (c *Client) Offset() time.Duration {
	m := c.Clock()
	if m == nil || max(m.OffsetMS, -m.OffsetMS) <= m.ErrorMS {
		return 0
	}
	return time.Duration(m.OffsetMS) * time.Millisecond
}

// List asks for the hosts (P1), and returns them with the lease that the manager grants for them.
// The list is nil if the one with the given ETag still holds.
func (c *Client) List(ctx context.Context, etag string) (*List, wire.Lease, error) {
	header := http.Header{"Accept": {"application/gzip"}, wire.HeaderAccept: {wire.AcceptAdditions}}
	resp, err := c.get(ctx, wire.PathList, header, etag)
	if err != nil {
		return nil, wire.Lease{}, err
	}
	defer resp.Body.Close()
	lease, err := wire.ParseLease(resp.Header.Get(wire.HeaderLease))
	if err != nil || resp.StatusCode == http.StatusNotModified {
		return nil, lease, err
	}
	list := &List{ETag: resp.Header.Get("ETag"), Leased: lease.Renewed && lease.For > 0}
	list.Generation, err = strconv.ParseInt(resp.Header.Get(wire.HeaderGeneration), 10, 64)
	if err != nil {
		return nil, lease, fmt.Errorf("list: header %s: %w", wire.HeaderGeneration, err)
	}
	for line, err := range wire.ReadHostList(resp.Body, maxListSize) {
		if err != nil {
			return nil, lease, fmt.Errorf("list: %w", err)
		}
		list.Add(line)
	}
	return list, lease, nil
}

// Watches asks for the pages that consumers watch, and returns them with their ETag. It returns nil
// if the list with the given ETag still holds.
func (c *Client) Watches(ctx context.Context, etag string) (*wire.WatchList, string, error) {
	resp, err := c.get(ctx, wire.PathWatches, http.Header{}, etag)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil, "", nil
	}
	list := new(wire.WatchList)
	if err := json.NewDecoder(io.LimitReader(resp.Body, wire.MaxWatches)).Decode(list); err != nil {
		return nil, "", fmt.Errorf("watches: %w", err)
	}
	return list, resp.Header.Get("ETag"), nil
}

// ServiceKeys asks for the statements that lead from a key of the service to its newest one. It
// returns nil if the manager's program is too old to have statements.
func (c *Client) ServiceKeys(ctx context.Context, key ed25519.PublicKey) ([]wire.KeyStatement, error) {
	resp, err := c.get(ctx, wire.PathServiceKeys+"?key="+hex.EncodeToString(key), http.Header{}, "")
	if r, ok := errors.AsType[*refused](err); ok && r.status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var chain wire.KeyChain
	if err := json.NewDecoder(io.LimitReader(resp.Body, wire.MaxKeyChain)).Decode(&chain); err != nil {
		return nil, fmt.Errorf("the service's keys: %w", err)
	}
	return chain.Statements, nil
}

func (c *Client) get(ctx context.Context, path string, header http.Header, etag string) (*http.Response, error) {
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	return c.do(ctx, http.MethodGet, path, header, nil)
}

// Record reports URLs that were found outside the robot's assignment (P2).
func (c *Client) Record(ctx context.Context, lines []wire.HostLine) error {
	var body bytes.Buffer
	if err := wire.WriteHostList(&body, slices.Values(lines)); err != nil {
		return err
	}
	return c.tell(ctx, wire.PathRecord, bytesOf(body.Bytes()))
}

// SubmitLog sends a log of the collection (P3). open is called for each URL that is tried. If a log
// arrives twice, the manager counts it once.
func (c *Client) SubmitLog(ctx context.Context, open func() (io.Reader, error)) error {
	return c.tell(ctx, wire.PathSubmitLog, open)
}

// IsRestart asks whether the robot is to drop the list of this generation and get it anew (P4). The
// manager repeats the order until the robot asks with a newer generation, so an answer may be lost.
func (c *Client) IsRestart(ctx context.Context, generation int64) (bool, error) {
	header := http.Header{wire.HeaderGeneration: {strconv.FormatInt(generation, 10)}}
	resp, err := c.do(ctx, http.MethodGet, wire.PathIsRestart, header, nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first) == "RESTART", err
}

// Subscribe tells the manager that the robot takes part (P5).
func (c *Client) Subscribe(ctx context.Context) error { return c.tell(ctx, wire.PathSubscribe, nil) }

// Unsubscribe tells the manager that the robot takes part no longer (P5).
func (c *Client) Unsubscribe(ctx context.Context) error {
	return c.tell(ctx, wire.PathUnsubscribe, nil)
}

// Heartbeat tells the manager how far the robot is, and returns the manager's orders and the lease
// that it grants.
func (c *Client) Heartbeat(ctx context.Context, hb wire.Heartbeat) (orders wire.Orders, lease wire.Lease, err error) {
	header, err := c.exchange(ctx, wire.PathHeartbeat, hb, 1<<20, &orders)
	if err == nil {
		lease, err = wire.ParseLease(header.Get(wire.HeaderLease))
	}
	return orders, lease, err
}

// Addresses tells the manager the hosts' new addresses.
func (c *Client) Addresses(ctx context.Context, addresses map[string][]string) error {
	body, err := json.Marshal(wire.AddressReport{Addresses: addresses})
	if err != nil {
		return err
	}
	return c.tell(ctx, wire.PathAddresses, bytesOf(body))
}

// HandOver sends the hand-over file of a host that the robot has lost, for the host's next robot.
// open is called for each URL that is tried.
func (c *Client) HandOver(ctx context.Context, open func() (io.Reader, error)) error {
	return c.tell(ctx, wire.PathHandovers, open)
}

// TakeOver opens the hand-over file of a host that the robot has got, by the file's digest. The
// caller must close it.
func (c *Client) TakeOver(ctx context.Context, digest string) (io.ReadCloser, error) {
	resp, err := c.do(ctx, http.MethodGet, strings.Replace(wire.PathHandover, "{id}", digest, 1), nil, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Report tells the manager which program the robot runs. The answer may offer a release.
func (c *Client) Report(ctx context.Context, report wire.ReportRequest) (answer wire.ReportAnswer, err error) {
	_, err = c.exchange(ctx, wire.PathReport, report, 4*wire.MaxReleaseText, &answer)
	return answer, err
}

// exchange posts JSON and reads at most limit bytes of JSON. An answer without a body leaves answer
// as it is. It returns the answer's header.
func (c *Client) exchange(ctx context.Context, path string, question any, limit int64, answer any) (http.Header, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(ctx, http.MethodPost, path, http.Header{"Accept": {"application/json"}}, bytesOf(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return resp.Header, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, limit)).Decode(answer); err != nil {
		return nil, fmt.Errorf("%s: answer: %w", path, err)
	}
	return resp.Header, nil
}

func (c *Client) tell(ctx context.Context, path string, body content) error {
	resp, err := c.do(ctx, http.MethodPost, path, nil, body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// content opens a request's body, once for each URL that is tried.
type content func() (io.Reader, error)

func bytesOf(data []byte) content {
	return func() (io.Reader, error) { return bytes.NewReader(data), nil }
}

// do sends a request to one URL after another until one answers. Every status but success and 304
// is an error. The caller must read the answer's body without a pause of askTimeout, and close it.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body content) (resp *http.Response, err error) {
	err = c.at.try(func(base string) error {
		resp, err = c.ask(ctx, method, base+strings.Replace(path, "{robot}", c.robot, 1), header, body)
		return err
	})
	return resp, err
}

// ask makes one request. Its error is an *unreachable if another URL may be tried.
func (c *Client) ask(ctx context.Context, method, url string, header http.Header, body content) (*http.Response, error) {
	var data io.Reader
	if body != nil {
		var err error
		if data, err = body(); err != nil {
			return nil, err
		}
		if c, ok := data.(io.Closer); ok {
			defer c.Close() // ends its writer, if the request did not read it all
		}
	}
	timed, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(askTimeout, cancel)
	if _, short := data.(*bytes.Reader); data != nil && !short { // the client sees how long a short one is
		data = &movingBody{Reader: data, timer: timer}
	}
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
	req.SetBasicAuth(c.robot, c.secret)
	sent := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		cancel()
		if ctx.Err() == nil {
			err = &unreachable{err: err}
		}
		return nil, err
	}
	resp.Body = &cancelBody{movingBody{resp.Body, timer}, resp.Body, cancel}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotModified {
		c.clock.sample(sent, time.Now(), resp.Header)
		c.notePage(resp)
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // as much as can be read, for the message
	return nil, answerError(resp, string(said))
}

// movingBody restarts the time-out of a request each time something is read.
type movingBody struct {
	io.Reader
	timer *time.Timer
}

func (b *movingBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.timer.Reset(askTimeout)
	}
	return n, err
}

// cancelBody ends its request's context when it is closed.
type cancelBody struct {
	movingBody
	body   io.Closer
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	b.timer.Stop()
	defer b.cancel()
	return b.body.Close()
}

// clock measures how far this machine's clock is ahead of the manager's, by the Date of the
// answers. A Date has whole seconds, so each answer gives only an interval for the offset. The
// intervals of several answers overlap in a much smaller one (Marzullo and Owicki, "Maintaining the
// time in a distributed system", 1983).
type clock struct {
	mu       sync.Mutex // guards all below
	known    bool
	low, top time.Duration // the offset lies between them
	at       time.Time     // of the last answer
}

// drift bounds the drift of two clocks: one second in this many. That is 100 ppm, five times the
// drift of a bad quartz.
const drift = 10_000

// sample takes in the header of an answer. sent is the time of the request, and got that of the
// answer.
func (c *clock) sample(sent, got time.Time, h http.Header) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil || h.Get("Age") != "" { // a cache's copy has the Date of an earlier time
		return
	}
	// The manager's clock showed a time in [date, date+1s) between the two.
	low, top := sent.Sub(date)-time.Second, got.Sub(date)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		parted := got.Sub(c.at) / drift
		overlapLow, overlapTop := max(low, c.low-parted), min(top, c.top+parted)
		if overlapLow <= overlapTop { // else one of the clocks was set, and only the new bounds hold
			low, top = overlapLow, overlapTop
		}
	}
	c.known, c.low, c.top, c.at = true, low, top, got
}

func (c *clock) measured() *wire.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil
	}
	return &wire.Clock{
		OffsetMS: ((c.low + c.top) / 2).Milliseconds(),
		ErrorMS:  ((c.top - c.low) / 2).Milliseconds() + 1,
	}
}

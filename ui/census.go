package ui

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"sheaf/archive/naming"
	"sheaf/serve"
	"sheaf/serve/account"
)

// census counts the hosts below each place of the tree, and finds hosts by parts of their names. A
// catalog has its hosts in order but does not know their number. So one pass over all hosts is made
// for each version, and all pages share its result.
type census struct {
	room *serve.Room
	log  *slog.Logger

	mu       sync.Mutex
	version  int64
	result   map[string]count
	names    string // of all hosts, each between line ends
	counting bool
}

// count counts the hosts at and below one place.
type count struct {
	Hosts, Records, Bytes int64
}

// deepest is the largest number of labels of a counted place: jp, ac.jp, waseda.ac.jp.
const deepest = 3

// quick is the number of hosts up to which a page waits for the counts. With more hosts the pages
// show the counts of an earlier version until the new ones are ready.
const quick = 2000

// counts returns the newest counts by place ("" is the root), and whether they are up to date. The
// counts of a large catalog are made in the background.
func (c *census) counts(ctx context.Context) (map[string]count, bool) {
	version, err := c.room.Library.Tree.Version(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "hosts cannot be counted", "err", err)
		return c.last()
	}
	c.mu.Lock()
	if c.version == version && c.result != nil || c.counting {
		defer c.mu.Unlock()
		return c.result, c.version == version
	}
	c.counting = true
	c.mu.Unlock()
	done := make(chan struct{})
	few := make(chan struct{}, 1)
	go func() {
		defer close(done)
		result, names, err := c.run(context.WithoutCancel(ctx), few)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counting = false
		if err != nil {
			c.log.WarnContext(ctx, "hosts cannot be counted", "err", err)
			return
		}
		c.version, c.result, c.names = version, result, names
	}()
	select {
	case <-done:
	case <-few: // there are many hosts
	case <-ctx.Done():
	}
	return c.last()
}

func (c *census) last() (map[string]count, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result, c.result != nil && !c.counting
}

// find calls f with each host whose name has the part, in the order of the tree, until f returns
// false. It searches the hosts of the newest counts.
func (c *census) find(ctx context.Context, part string, f func(host string) bool) {
	c.counts(ctx)
	c.mu.Lock()
	names := c.names
	c.mu.Unlock()
	for {
		at := strings.Index(names, part)
		if at < 0 || strings.Contains(part, "\n") {
			return
		}
		begin, length := strings.LastIndexByte(names[:at], '\n')+1, strings.IndexByte(names[at:], '\n')
		if !f(names[begin : at+length]) {
			return
		}
		names = names[at+length:]
	}
}

// run counts and lists the hosts. It sends to many once there are more than quick hosts.
func (c *census) run(ctx context.Context, many chan<- struct{}) (map[string]count, string, error) {
	var names strings.Builder
	names.WriteByte('\n')
	result, all := make(map[string]count), &account.Account{Name: "census", Domains: []string{"*"}}
	var latest [deepest + 1]string // by depth: the last place that was counted
	for cursor, seen := "", 0; ; {
		hosts, next, err := c.room.Library.Tree.Hosts(ctx, all, "", cursor, 1000)
		if err != nil {
			return nil, "", err
		}
		for _, h := range hosts {
			names.WriteString(h.Host + "\n")
			labels := strings.Split(naming.HostPath(h.Host), "/")
			for depth := range min(len(labels), deepest) + 1 {
				place := strings.Join(labels[:depth], "/")
				if left := latest[depth]; left != "" && left != place && result[left].Hosts == 1 {
					delete(result, left) // most places have one host, which their page shows anyway
				}
				latest[depth] = place
				n := result[place]
				n.Hosts++
				n.Records += h.Records
				n.Bytes += h.Bytes
				result[place] = n
			}
		}
		if seen += len(hosts); seen > quick {
			select {
			case many <- struct{}{}:
			default:
			}
		}
		if next == "" {
			return result, names.String(), nil
		}
		cursor = next
	}
}

// browsePath returns the path of the page of a host or domain.
func browsePath(name string) string { return "/browse/" + naming.HostPath(name) + "/" }

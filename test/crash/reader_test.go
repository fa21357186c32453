package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/serve/library"
)

// read runs two readers of all that is published: a consumer over HTTP, whose requests may be cut
// when the service dies, and a node that reads the store itself. What they see must be whole. The
// returned function ends them after one more look.
func (f *fleet) read(t *testing.T) (end func()) {
	objects, err := store.OpenFS(filepath.Join(f.data, "store"))
	testkit.Must(t, err)
	c, err := catalog.Open(t.Context(), objects, catalog.Options{})
	testkit.Must(t, err)
	over := make(chan struct{})
	var g sync.WaitGroup
	every := func(look func() error) {
		g.Go(func() {
			for last := false; ; {
				if err := look(); err != nil {
					t.Errorf("a reader saw: %v", err)
					return
				}
				if last {
					return
				}
				select {
				case <-over:
					last = true
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	node := &node{fleet: f, catalog: c, store: objects, seen: map[string]bool{}, batches: map[string]string{}}
	consumer := &consumer{fleet: f, url: f.url(), manifests: map[string][]byte{}}
	every(func() error { return node.look(t.Context()) })
	every(func() error { return consumer.look(t.Context()) })
	return func() {
		close(over)
		g.Wait()
		f.inStore, f.overHTTP = len(node.seen), len(consumer.manifests)
		testkit.Must(t, objects.Close())
	}
}

// node reads the catalog in the store.
type node struct {
	*fleet
	catalog *catalog.Catalog
	store   store.Store
	version int64
	seen    map[string]bool   // editions
	batches map[string]string // editions by batch
}

func (n *node) look(ctx context.Context) error {
	s, err := n.catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	if s.Version() < n.version {
		return fmt.Errorf("version %d after version %d", s.Version(), n.version)
	}
	n.version = s.Version()
	editions, err := s.Editions(ctx)
	if err != nil {
		return err
	}
	for _, e := range editions {
		if n.seen[e.Name] {
			continue
		}
		n.seen[e.Name] = true
		lines := map[string][]catalog.SegmentEntry{}
		for l, err := range s.Edition(ctx, e.Name) {
			if err != nil {
				return err
			}
			if err := n.verify(ctx, l); err != nil {
				return fmt.Errorf("version %d, %s of %s: %w", s.Version(), l.Object, l.Host, err)
			}
			lines[l.Batch] = append(lines[l.Batch], l)
		}
		if err := n.wholeBatches(e.Name, lines); err != nil {
			return fmt.Errorf("version %d: %w", s.Version(), err)
		}
	}
	return nil
}

func (n *node) wholeBatches(edition string, lines map[string][]catalog.SegmentEntry) error {
	for id, list := range lines {
		c := n.made(id)
		if c == nil || c.bad {
			return fmt.Errorf("edition %s has batch %s, which is bad or was never sent", edition, id)
		}
		if before := n.batches[id]; before != "" {
			return fmt.Errorf("batch %s is in editions %s and %s", id, before, edition)
		}
		n.batches[id] = edition
		if err := whole(c, list); err != nil {
			return err
		}
	}
	return nil
}

// verify reads the entry's segment to its end.
func (n *node) verify(ctx context.Context, l catalog.SegmentEntry) error {
	r, err := n.store.Open(ctx, l.Object, l.Offset, l.Length)
	if err != nil {
		return err
	}
	defer r.Close()
	sum, err := archive.VerifySegment(r, archive.VerifyOptions{Host: l.Host})
	if err == nil && (sum.SHA256 != l.SHA256 || sum.Records != l.Records) {
		err = fmt.Errorf("SHA-256 %s and %d records, the line says %s and %d", sum.SHA256, sum.Records, l.SHA256, l.Records)
	}
	return err
}

// consumer reads over HTTP.
type consumer struct {
	*fleet
	url       string
	version   int64
	manifests map[string][]byte // by edition

	patient  bool // a service may fail, too, and is asked again
	failures int  // requests that have failed
}

// errCut says that a connection was cut, an answer ended early, or no service was there.
var errCut = errors.New("cut")

func (c *consumer) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.failures++
		return nil, errCut
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || c.patient && resp.StatusCode >= 500 {
		c.failures++
		return nil, errCut
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %s", path, resp.Status, body)
	}
	return body, nil
}

func (c *consumer) look(ctx context.Context) error {
	err := c.lookOnce(ctx)
	if errors.Is(err, errCut) {
		return nil
	}
	return err
}

func (c *consumer) lookOnce(ctx context.Context) error {
	var version api.VersionDocument
	var list api.EditionList
	for path, into := range map[string]any{"/v1/version": &version, "/v1/editions": &list} {
		body, err := c.get(ctx, path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, into); err != nil {
			return err
		}
	}
	if version.Catalog < c.version {
		return fmt.Errorf("version %d over HTTP after version %d", version.Catalog, c.version)
	}
	c.version = version.Catalog
	for _, e := range list.Editions {
		if c.manifests[e.Name] != nil {
			continue
		}
		if err := c.edition(ctx, e.Name); err != nil {
			return err
		}
	}
	if n := len(list.Editions); n > 0 { // what was published stays as it was
		name := pick(c.t, list.Editions).Name
		again, err := c.get(ctx, "/pub/editions/"+name+"/MANIFEST")
		if err != nil {
			return err
		}
		if !bytes.Equal(again, c.manifests[name]) {
			return fmt.Errorf("the MANIFEST of edition %s has changed", name)
		}
	}
	return nil
}

// edition reads an edition's MANIFEST, and each file in it.
func (c *consumer) edition(ctx context.Context, name string) error {
	dir := "/pub/editions/" + name + "/"
	text, err := c.get(ctx, dir+"MANIFEST")
	if err != nil {
		return err
	}
	hosts := map[string][]string{} // by batch
	for line := range strings.Lines(string(text)) {
		var l library.ManifestLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return fmt.Errorf("MANIFEST of %s: %w", name, err)
		}
		file, err := c.get(ctx, dir+l.Path)
		if err != nil {
			return err
		}
		if int64(len(file)) != l.Size || l.SHA256 != "" && wire.Digest(file) != l.SHA256 {
			return fmt.Errorf("%s of edition %s is not what its MANIFEST says", l.Path, name)
		}
		if !strings.HasSuffix(l.Path, ".tar.gz") {
			continue
		}
		for _, s := range l.Segments {
			hosts[s.Batch] = append(hosts[s.Batch], l.Host)
		}
	}
	for id, got := range hosts {
		sent := c.made(id)
		if sent == nil || sent.bad {
			return fmt.Errorf("edition %s has batch %s, which is bad or was never sent", name, id)
		}
		var want []string
		for _, h := range sent.Manifest.Hosts {
			want = append(want, h.Name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("edition %s has of batch %s the hosts %q; it was sent with %q", name, id, got, want)
		}
	}
	c.manifests[name] = text
	return nil
}

package client

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"sheaf/internal/files"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
)

// Found collects hosts that are not assigned but that pages link to, a few pages of each, and URLs
// in other robots' shares of a host. Each URL is reported once (P2), without the page that links to
// it, as in paper 001. Its methods may be called concurrently.
//
//	discovered/hosts     lines of a host list, in the order of finding
//	discovered/reported  how many bytes of it the manager has
type Found struct {
	dir string

	mu       sync.Mutex // guards all below, and the file reported
	file     *os.File
	size     int64
	lines    int
	reported int            // lines that the manager has
	known    *frontier.Seen // hashes of the URLs
}

// OpenFound opens the collection in a folder, or begins one.
func OpenFound(dir string) (*Found, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "hosts"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	d := &Found{dir: dir, file: f, known: frontier.NewSeen(filepath.Join(dir, "known"))}
	var sent int64
	if config.LoadJSON(d.mark(), &sent) != nil {
		sent = 0 // the next report says what is wrong with it
	}
	d.size, err = files.EachLine(f.Name(), 0, func(line []byte, end int64) error {
		d.lines++
		if end <= sent {
			d.reported = d.lines
		}
		url, _, _ := strings.Cut(string(line), "\t")
		err := d.known.Add(hashOf(url))
		if _, host, bad := wire.NormalizeURL(url); err == nil && bad == nil && !strings.HasSuffix(url, "//"+host+"/") {
			err = d.known.Add(placeOf(host, url))
		}
		return err
	})
	if err == nil {
		err = f.Truncate(d.size) // without an incomplete last line, which a crash leaves
	}
	return d, err
}

// Elsewhere adds a URL that is in another robot's share.
func (d *Found) Elsewhere(e frontier.Entry) error {
	url, _, err := wire.NormalizeURL(e.URL)
	if err != nil {
		return nil // the manager would refuse it
	}
	return d.Add(wire.HostLine{URL: url, Depth: e.Depth})
}

// Add adds a URL, such as http://www.example.jp/, unless it was added before.
func (d *Found) Add(l wire.HostLine) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.add(l)
}

func (d *Found) add(l wire.HostLine) error {
	known, err := d.known.Has(hashOf(l.URL))
	if err != nil || known {
		return err
	}
	line := l.Append(nil)
	if err := files.AppendAt(d.file, d.size, line); err != nil {
		return err
	}
	d.size += int64(len(line))
	d.lines++
	return d.known.Add(hashOf(l.URL))
}

// pagesOfHost is how many pages of a host are reported at most, besides its top page. The manager
// takes a hundred from all robots together.
const pagesOfHost = 8

// AddPage adds a page of a host that is not assigned, so that the host's robot learns of the page
// although no page of its own hosts links there. A page's hash gives it one of the host's places;
// if another page has that place already, the page is left out.
func (d *Found) AddPage(host, url string) error {
	place := placeOf(host, url)
	d.mu.Lock()
	defer d.mu.Unlock()
	taken, err := d.known.Has(place)
	if err != nil || taken {
		return err
	}
	if err := d.add(wire.HostLine{URL: url}); err != nil {
		return err
	}
	return d.known.Add(place)
}

// placeOf returns the hash of a page's place among the pagesOfHost places of its host.
func placeOf(host, url string) uint64 {
	return hashOf(fmt.Sprintf("%d of %s", hashOf(url)%pagesOfHost, host))
}

func hashOf(url string) uint64 {
	sum := sha256.Sum256([]byte(url))
	return binary.BigEndian.Uint64(sum[:])
}

// Recorder takes found URLs for the manager, as Client does.
type Recorder interface {
	Record(ctx context.Context, lines []wire.HostLine) error
}

// Report sends what the manager does not have yet. A report that has arrived but could not be noted
// is sent again; the manager allows that. Calls must not overlap.
func (d *Found) Report(ctx context.Context, m Recorder) error {
	const atOnce = 10_000
	var sent int64
	d.mu.Lock()
	err := config.LoadJSON(d.mark(), &sent)
	size, reported := d.size, d.reported
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if sent > size {
		return fmt.Errorf("%s: %d bytes were reported and hosts has only %d; remove the file to report all again", d.mark(), sent, size)
	}
	if sent == 0 { // the file was removed
		reported = 0
	}
	r := bufio.NewScanner(io.NewSectionReader(d.file, sent, size-sent))
	for sent < size {
		var lines []wire.HostLine
		for len(lines) < atOnce && r.Scan() {
			line, err := wire.ParseHostLine(r.Text())
			if err != nil {
				return fmt.Errorf("%s: at byte %d: %w", d.file.Name(), sent, err)
			}
			lines = append(lines, line)
			sent += int64(len(r.Text())) + 1
		}
		if err := r.Err(); err != nil {
			return err
		}
		if err := m.Record(ctx, lines); err != nil {
			return err
		}
		reported += len(lines)
		if err := d.note(sent, reported); err != nil {
			return err
		}
	}
	return nil
}

// note records how much of the file named hosts the manager has, in bytes and in lines.
func (d *Found) note(sent int64, lines int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reported = lines
	return config.SaveJSON(d.mark(), sent)
}

func (d *Found) mark() string { return filepath.Join(d.dir, "reported") }

// Waiting returns the number of lines that are not reported yet.
func (d *Found) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lines - d.reported
}

// Close closes the files. No other method may be called afterwards.
func (d *Found) Close() error { return errors.Join(d.known.Clear(), d.file.Close()) }

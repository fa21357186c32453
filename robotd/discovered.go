package robotd

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

	"sheaf/internal/wire"
	"sheaf/robotd/seen"
)

// discovered collects the hosts that pages link to and that are not assigned, and URLs of
// hosts that other robots visit, to be reported once each (P2). The paper's robots sent top pages without referers,
// to keep the traffic small; so does this.
//
//	discovered/hosts     lines of a host list, in the order of finding
//	discovered/reported  how many bytes of it the manager has
type discovered struct {
	dir string

	mu       sync.Mutex // guards all below, and the mark
	file     *os.File
	size     int64
	lines    int
	reported int       // of the lines, as many as the mark's bytes hold
	known    *seen.Set // of hashes of the lines
}

func openDiscovered(dir string) (*discovered, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "hosts"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	d := &discovered{dir: dir, file: f, known: seen.New(filepath.Join(dir, "known"))}
	var sent int64
	if loadJSON(d.mark(), &sent) != nil {
		sent = 0 // the next report says what is wrong with it
	}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return d, f.Truncate(d.size) // a line that a crash tore
		}
		if err != nil {
			return nil, err
		}
		d.size += int64(len(line))
		d.lines++
		if d.size <= sent {
			d.reported = d.lines
		}
		url, _, _ := strings.Cut(line[:len(line)-1], "\t")
		if err := d.known.Add(hashOf(url)); err != nil {
			return nil, err
		}
	}
}

// add remembers a URL, such as http://www.example.jp/.
func (d *discovered) add(l wire.HostLine) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, err := d.known.Has(hashOf(l.URL))
	if err != nil || known {
		return err
	}
	n, err := d.file.WriteAt(l.Append(nil), d.size)
	if err != nil {
		return err
	}
	d.size += int64(n)
	d.lines++
	return d.known.Add(hashOf(l.URL))
}

func hashOf(url string) uint64 {
	sum := sha256.Sum256([]byte(url))
	return binary.BigEndian.Uint64(sum[:])
}

// report sends what the manager has not had. It can be done again: a report that
// arrived and was not noted is sent twice, which the manager is used to.
func (d *discovered) report(ctx context.Context, m *manager) error {
	const atOnce = 10_000
	var sent int64
	d.mu.Lock()
	err := loadJSON(d.mark(), &sent)
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
		if err := m.record(ctx, lines); err != nil {
			return err
		}
		reported += len(lines)
		if err := d.note(sent, reported); err != nil {
			return err
		}
	}
	return nil
}

// note remembers that so many bytes, which are so many lines, were reported.
func (d *discovered) note(sent int64, lines int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reported = lines
	return saveJSON(d.mark(), sent)
}

func (d *discovered) mark() string { return filepath.Join(d.dir, "reported") }

// waiting is how many lines are to be reported yet.
func (d *discovered) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lines - d.reported
}

func (d *discovered) Close() error { return errors.Join(d.known.Clear(), d.file.Close()) }

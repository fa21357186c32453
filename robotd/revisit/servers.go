package revisit

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"sheaf/internal/files"
	"sheaf/robotd/config"
)

// Server is what visits have shown about a host's server.
type Server struct {
	Addr  netip.Addr // last address; zero: unknown
	Day   int        // number of the day of the last observation
	Hours ServerHours
}

// packed is a compact Server: there may be ten thousand, and most are visited in a few hours of the
// day.
type packed struct {
	addr  netip.Addr
	day   int32
	hours []packedHour // hours with observations
}

type packedHour struct {
	hour          int32
	speed, weight float32
}

// Servers has the servers in memory and saves them to one file from time to time. What is lost with
// the process is learned again. Servers may be used concurrently.
type Servers struct {
	path string

	mu    sync.Mutex // guards all below
	all   map[string]*packed
	dirty bool
}

// OpenServers reads what an earlier process has saved. It skips damaged lines.
func OpenServers(path string) (*Servers, error) {
	s := &Servers{path: path, all: make(map[string]*packed)}
	_, err := files.EachLine(path, 0, func(line []byte, _ int64) error {
		if name, p, ok := parseServer(string(line)); ok {
			s.all[name] = p
		}
		return nil
	})
	return s, err
}

func (p *packed) line(name string) string {
	var numbers []byte
	var speed, weight [24]float32
	for _, h := range p.hours {
		speed[h.hour], weight[h.hour] = h.speed, h.weight
	}
	for _, f := range [][24]float32{speed, weight} {
		numbers, _ = binary.Append(numbers, binary.LittleEndian, f) // cannot fail: the size is fixed
	}
	addr := "-"
	if p.addr.IsValid() {
		addr = p.addr.String()
	}
	return config.Summed(fmt.Sprintf("%d %s %s %s", p.day, addr, base64.RawStdEncoding.EncodeToString(numbers), name)) + "\n"
}

func parseServer(line string) (name string, p *packed, ok bool) {
	text, ok := config.Unsummed(line)
	f := strings.SplitN(text, " ", 4)
	if !ok || len(f) != 4 {
		return "", nil, false
	}
	p = new(packed)
	numbers, err := base64.RawStdEncoding.DecodeString(f[2])
	var speed, weight [24]float32
	if err != nil || len(numbers) != binary.Size(speed)+binary.Size(weight) {
		return "", nil, false
	}
	r := bytes.NewReader(numbers)
	if err := errors.Join(binary.Read(r, binary.LittleEndian, &speed), binary.Read(r, binary.LittleEndian, &weight)); err != nil {
		return "", nil, false
	}
	p.pack(func(hour int) (float32, float32) { return speed[hour], weight[hour] })
	p.addr, _ = netip.ParseAddr(f[1]) // zero for "-"
	_, err = fmt.Sscan(f[0], &p.day)
	return f[3], p, err == nil
}

// pack stores the speed and weight of each hour that has observations.
func (p *packed) pack(of func(hour int) (speed, weight float32)) {
	var hours [24]packedHour
	n := 0
	for hour := range hours {
		if speed, weight := of(hour); weight != 0 {
			hours[n] = packedHour{int32(hour), speed, weight}
			n++
		}
	}
	p.hours = slices.Clone(hours[:n])
}

// Get returns what is known about a host's server. If nothing is, the result is zero.
func (s *Servers) Get(host string) (v Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[host]
	if p == nil {
		return v
	}
	v.Addr, v.Day = p.addr, int(p.day)
	for _, h := range p.hours {
		v.Hours.Speed[h.hour], v.Hours.Weight[h.hour] = float64(h.speed), float64(h.weight)
	}
	return v
}

// Set replaces what is known about a host's server. The next Save writes it.
func (s *Servers) Set(host string, v Server) {
	p := &packed{addr: v.Addr, day: int32(v.Day)}
	p.pack(func(hour int) (float32, float32) { return float32(v.Hours.Speed[hour]), float32(v.Hours.Weight[hour]) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[host], s.dirty = p, true
}

// Forget deletes what is known about a host's server.
func (s *Servers) Forget(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, host)
	s.dirty = true
}

// Save writes the file if anything has changed.
func (s *Servers) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty {
		return nil
	}
	err := files.WriteWith(s.path, func(w io.Writer) error { // in pieces: the file is much larger than the data in memory
		for name, p := range s.all {
			if _, err := io.WriteString(w, p.line(name)); err != nil {
				return err
			}
		}
		return nil
	})
	s.dirty = err != nil
	return err
}

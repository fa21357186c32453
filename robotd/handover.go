package robotd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/client"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// passing passes hosts on: it hands over hosts that the robot has lost, and takes over hosts that
// it has got. The file is described in internal/wire/HANDOVER.md. Its methods must not be called
// concurrently.
type passing struct {
	robot    *Robot
	service  wire.Verifier  // verifies what other robots hand over
	failures map[string]int // how often each host's file was not sent, until handOver has ended
}

// patience is how often a host's file may fail to be sent before the host is given up. The service
// has just sent its list, so something is wrong with this request only.
const patience = 3

// handOver sends what the robot knows of hosts that it does not visit any more. A refusal by the
// service is only logged. After an error, of the service or of the disk, the caller should try
// again.
func (p *passing) handOver(ctx context.Context, generation int64, names []string) error {
	var unsettled map[string]bool
	var again error // the first of those that are worth another try
	for _, name := range names {
		if !p.robot.records.Frontier.Has(name) || p.failures[name] >= patience {
			continue
		}
		if unsettled == nil {
			if p.failures == nil {
				p.failures = make(map[string]int)
			}
			var err error
			if unsettled, err = p.unsettled(); err != nil {
				return err
			}
		}
		err := p.send(ctx, name, generation, !unsettled[name])
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		case client.Refused(err), errors.Is(err, wire.ErrTooLarge):
			p.robot.log.InfoContext(ctx, "host not handed over: its next robot begins anew", "host", name, "err", err)
		default:
			if p.failures[name]++; p.failures[name] < patience {
				if again = cmp.Or(again, fmt.Errorf("hand over %s: %w", name, err)); !client.Answered(err) {
					return again // it would be the same for the other hosts
				}
				continue
			}
			p.robot.log.WarnContext(ctx, "host not handed over: its next robot begins anew", "host", name, "err", err)
		}
	}
	if again == nil {
		clear(p.failures)
	}
	return again
}

// unsettledAge is the age from which a batch counts as one of an earlier cycle.
const unsettledAge = 12 * time.Hour

// unsettled returns the hosts with pages of earlier cycles that are not published yet. The service
// may refuse those pages, so no other robot's revisits may refer to them.
func (p *passing) unsettled() (map[string]bool, error) {
	hosts := map[string]bool{}
	batches, err := p.robot.records.Batches.Spool()
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		m, err := wire.PeekManifest(b.Signed)
		if err != nil {
			return nil, err
		}
		if time.Since(m.Created) < unsettledAge {
			continue
		}
		for _, h := range m.Hosts {
			hosts[h.Name] = true
		}
	}
	return hosts, nil
}

// send sends the file of a host, unless nothing is known of it. The body is written to the disk
// first, because its digest stands at the beginning of the file.
func (p *passing) send(ctx context.Context, name string, generation int64, states bool) error {
	body, err := p.robot.records.Frontier.TempFile()
	if err != nil {
		return err
	}
	defer os.Remove(body.Name())
	defer body.Close()
	front, err := p.robot.records.Frontier.Host(name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	queued, lines, err := front.Export(io.MultiWriter(body, sum), states)
	if err != nil || lines == 0 {
		return err
	}
	size, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	h := p.describe(name, generation)
	h.Queued = queued
	head, err := h.File(size, hex.EncodeToString(sum.Sum(nil)), p.robot.id.Key)
	if err != nil {
		return err
	}
	return p.robot.client.HandOver(ctx, func() (io.Reader, error) {
		return io.MultiReader(bytes.NewReader(head), io.NewSectionReader(body, 0, size)), nil
	})
}

// describe returns the head of a host's file, without what depends on the body.
func (p *passing) describe(name string, generation int64) *wire.Handover {
	now := time.Now()
	h := &wire.Handover{
		Format: wire.HandoverFormat, Robot: p.robot.id.Robot, Host: name, Generation: generation, Made: now.UTC().Truncate(time.Millisecond),
		Rest: restOf(p.robot.manners.Restraints.Get(name), now),
	}
	server := p.robot.servers.Get(name)
	if server.Addr.IsValid() {
		h.Address, h.At = server.Addr.String(), restOf(p.robot.manners.Restraints.Address(server.Addr), now)
	}
	if server.Day > 0 {
		h.Hours = &wire.HandoverHours{Day: server.Day, Speed: server.Hours.Speed, Weight: server.Hours.Weight}
	}
	for _, scheme := range []string{"http", "https"} {
		if text, until, ok := p.robot.manners.Rules.Load(scheme, name); ok {
			h.Rules = append(h.Rules, wire.HandoverRules{Scheme: scheme, Text: text, ForMS: max(until.Sub(now), 0).Milliseconds()})
		}
	}
	return h
}

func restOf(r polite.Restraint, now time.Time) wire.HandoverRest {
	return wire.HandoverRest{WaitMS: max(r.Until.Sub(now), 0).Milliseconds(), EveryMS: r.Every.Milliseconds()}
}

// takeOver gets the files that other robots hand over, by their digests, and enters what they say.
// A host whose file is wrong begins anew. After an error, of the service or of the disk, the caller
// should try again.
func (p *passing) takeOver(ctx context.Context, digests map[string]string, names []string) error {
	for _, name := range names {
		digest := digests[name]
		if digest == "" || p.robot.records.Frontier.Has(name) {
			continue
		}
		err := p.service.Verify(ctx, func(keys ...ed25519.PublicKey) error { return p.fetch(ctx, name, digest, keys) })
		if err != nil && !client.Refused(err) && !errors.Is(err, errWrong) && !errors.Is(err, frontier.ErrHandover) {
			return fmt.Errorf("take over %s: %w", name, err)
		}
		if err != nil {
			p.robot.log.WarnContext(ctx, "host not taken over: it begins anew", "host", name, "err", err)
			continue
		}
		p.robot.log.InfoContext(ctx, "host taken over", "host", name)
	}
	return nil
}

// errWrong says that a file is no hand-over of the host for this robot.
var errWrong = errors.New("wrong hand-over")

// fetch gets a file that one of the service's keys has signed, and enters it.
func (p *passing) fetch(ctx context.Context, name, digest string, keys []ed25519.PublicKey) error {
	answer, err := p.robot.client.TakeOver(ctx, digest)
	if err != nil {
		return err
	}
	defer answer.Close()
	file := &download{Reader: answer}
	if err := p.enter(name, file, keys); err != nil {
		return cmp.Or(file.err, err)
	}
	return nil
}

// download notes why an answer broke off.
type download struct {
	io.Reader
	err error
}

func (d *download) Read(b []byte) (int, error) {
	n, err := d.Reader.Read(b)
	if err != nil && err != io.EOF {
		d.err = err
	}
	return n, err
}

// enter checks a file, and enters what it says.
func (p *passing) enter(name string, file io.Reader, keys []ed25519.PublicKey) error {
	h, body, err := wire.OpenHandover(file, keys...)
	if err != nil {
		return fmt.Errorf("%w: %w", errWrong, err)
	}
	if h.Host != name || h.To != p.robot.id.Robot {
		return fmt.Errorf("%w: it is of %s, for robot %q", errWrong, h.Host, h.To)
	}
	now := time.Now()
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	keep := func(what string, r wire.HandoverRest) error {
		old := p.robot.manners.Restraints.Get(what)
		fresh := polite.Restraint{Until: now.Add(ms(r.WaitMS)), Every: max(ms(r.EveryMS), old.Every)}
		if fresh.Until.Before(old.Until) {
			fresh.Until = old.Until
		}
		return p.robot.manners.Restraints.Set(what, fresh)
	}
	if err := keep(name, h.Rest); err != nil {
		return err
	}
	addr, err := netip.ParseAddr(h.Address)
	if err == nil {
		if err := keep(polite.AddressName(addr), h.At); err != nil {
			return err
		}
	}
	for _, r := range h.Rules {
		if err := p.robot.manners.Rules.Save(r.Scheme, name, r.Text, now.Add(ms(r.ForMS))); err != nil {
			return err
		}
	}
	if h.Hours != nil {
		s := revisit.Server{Addr: addr, Day: h.Hours.Day}
		s.Hours.Speed, s.Hours.Weight = h.Hours.Speed, h.Hours.Weight
		p.robot.servers.Set(name, s)
	}
	return p.robot.records.Frontier.Import(name, body, wire.MaxHandoverPlain, h.Queued)
}

// rest keeps the interval at hosts that another robot may have visited a moment ago. set has the
// intervals that operators have set, by host.
func (p *passing) rest(names []string, set map[string]time.Duration) error {
	now := time.Now()
	for _, name := range names {
		until := now.Add(max(p.robot.cfg.Interval, set[name]))
		r := p.robot.manners.Restraints.Get(name)
		if r.Until.After(until) {
			continue
		}
		r.Until = until
		if err := p.robot.manners.Restraints.Set(name, r); err != nil {
			return err
		}
	}
	return nil
}

package split

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/ingest/inbox"
	"sheaf/internal/wire"
)

// maxAhead is how far a robot's clock may be ahead of the service's.
const maxAhead = time.Hour

// maxLate is how much later a record may be than the end of its robot's time with the host: clocks
// may differ by more than was measured, and a page may have been under way.
const maxLate = 10 * time.Minute

// judge makes the checks that need no reading of the file. until has, for each host that the robot
// has lost, the time of the loss. left has the hosts that are left out because the robot did not
// have them. If all hosts are left out, or another check fails, the batch is refused, and an
// operator may release it.
func (s *Splitter) judge(ctx context.Context, b *inbox.Batch, m *wire.Manifest) (until map[string]time.Time, left leftOut, err error) {
	if ahead := m.Created.Sub(b.Received); ahead > maxAhead && !b.Waives(wire.ReasonClock) {
		return nil, left, inbox.RefuseManifest(m, wire.ReasonClock, fmt.Sprintf("the manifest was created at %s, %s after it was received; set the robot's clock", m.Created.Format(time.RFC3339), ahead.Round(time.Second)))
	}
	if b.Waives(wire.ReasonHostNotAssigned) || b.Robot == wire.ImportRobot {
		return nil, left, nil
	}
	if err := s.checkRobot(ctx, b, m); err != nil {
		return nil, left, err
	}
	hosts := make([]string, len(m.Hosts))
	for n, h := range m.Hosts {
		hosts[n] = h.Name
	}
	for _, c := range m.Coverage {
		hosts = append(hosts, c.Host)
	}
	held, err := s.opt.Robots.HeldUntil(ctx, b.Robot, hosts)
	if err != nil {
		return nil, left, fmt.Errorf("hosts of robot %s: %w", b.Robot, err)
	}
	for _, c := range m.Coverage {
		if _, had := held[c.Host]; !had {
			return nil, left, inbox.RefuseManifest(m, wire.ReasonHostNotAssigned, fmt.Sprintf("it tells the coverage of %s, which robot %s never had", c.Host, b.Robot))
		}
	}
	until = make(map[string]time.Time)
	for _, h := range m.Hosts {
		end, had := held[h.Name]
		switch {
		case !had:
			left.put(h.Name, notHeld(h, fmt.Sprintf("robot %s never had this host", b.Robot)))
		case end.IsZero():
		case m.Inferred: // no signature proves when its pages were fetched
			left.put(h.Name, notHeld(h, fmt.Sprintf("robot %s has this host no more, and the batch came without a manifest", b.Robot)))
		case h.Last.After(end.Add(maxLate)):
			left.put(h.Name, tooLate(h, b.Robot, end))
		default:
			until[h.Name] = end
		}
	}
	if len(left.hosts) == len(m.Hosts) && len(m.Hosts) > 0 {
		first := *left.hosts[m.Hosts[0].Name]
		if more := len(m.Hosts) - 1; more > 0 {
			first.Detail += fmt.Sprintf("; nor are the %d other hosts taken", more)
		}
		return nil, left, &first
	}
	return until, left, nil
}

// checkRobot checks that the batch came before its robot's key was stolen, and that the batch's
// generation exists. A database restored from an older backup may lack the generation.
func (s *Splitter) checkRobot(ctx context.Context, b *inbox.Batch, m *wire.Manifest) error {
	stolen, err := s.opt.Robots.StolenSince(ctx, b.Robot)
	if err != nil {
		return fmt.Errorf("key of robot %s: %w", b.Robot, err)
	}
	if !stolen.IsZero() && !b.Received.Before(stolen) {
		return inbox.RefuseManifest(m, wire.ReasonHostNotAssigned, fmt.Sprintf("it came at %s, and the key of robot %s may have been in others' hands since %s",
			b.Received.Format(time.RFC3339), b.Robot, stolen.UTC().Format(time.RFC3339)))
	}
	latest, err := s.opt.Robots.CurrentGeneration(ctx)
	if err != nil {
		return fmt.Errorf("assignment: %w", err)
	}
	if m.Generation > latest {
		return inbox.RefuseManifest(m, wire.ReasonHostNotAssigned, fmt.Sprintf("it was made in generation %d of the assignment, and the latest is %d", m.Generation, latest))
	}
	return nil
}

func notHeld(h wire.Host, why string) *inbox.Refusal {
	return &inbox.Refusal{Reason: wire.ReasonHostNotAssigned, Detail: fmt.Sprintf("offset %d (%s): %s", h.Offset, h.Name, why)}
}

func tooLate(h wire.Host, robot string, end time.Time) *inbox.Refusal {
	return notHeld(h, fmt.Sprintf("robot %s had this host until %s, and a record is more than %s later", robot, end.UTC().Format(time.RFC3339), maxLate))
}

// stagedAtOnce is how many entries one transaction stages. A crash in between loses nothing,
// because the next attempt stages all entries again.
const stagedAtOnce = 200

// verified is the result of verifying one host: its entry, or an error.
type verified struct {
	entry catalog.SegmentEntry
	err   error
}

// taken returns the indexes, in the manifest, of the hosts that are to be read.
func (a *attempt) taken() (places []int) {
	for n, h := range a.m.Hosts {
		if !a.left.has(h.Name) {
			places = append(places, n)
		}
	}
	return places
}

// hosts verifies and stores the hosts and stages their entries, in the order of the manifest, then
// verifies the end of the batch. Hosts that go into packs are not stored yet. others are the views
// of the hosts' records that are no pages. If a host fails that cannot be left out, hosts returns
// the first such error.
func (a *attempt) hosts(ctx context.Context, others map[string]catalog.View) error {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	ahead := make(chan chan verified, a.atOnce-1) // the receiver waits for one more
	taken := a.taken()
	working.Go(func() {
		defer close(ahead)
		for _, n := range taken {
			done := make(chan verified, 1)
			select {
			case ahead <- done:
			case <-ctx.Done():
				return
			}
			working.Go(func() {
				entry, err := a.host(ctx, a.m.Hosts[n], a.plan.places[n])
				done <- verified{entry, err}
			})
		}
	})
	var entries []catalog.SegmentEntry
	flush := func() error {
		if len(entries) == 0 {
			return nil
		}
		err := a.opt.Write(inbox.BoundaryStaged, func() error { return a.opt.Ledger.Stage(ctx, a.batch, entries) })
		entries = entries[:0]
		return err
	}
	for _, n := range taken {
		h := a.m.Hosts[n]
		next, ok := <-ahead
		if !ok {
			return ctx.Err()
		}
		v := <-next
		if a.left.add(h.Name, len(a.m.Hosts), v.err) {
			a.plan.leave(n)
			continue
		}
		if v.err != nil {
			return v.err
		}
		if view, ok := others[h.Name]; ok {
			v.entry.Views[wire.ViewOthers] = view
		}
		if entries = append(entries, v.entry); len(entries) < stagedAtOnce {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return a.file.Tail()
}

// host verifies one host's range. If the host has no place in a pack, the same bytes go to the
// store while they are read. The store keeps them only if all are right.
func (a *attempt) host(ctx context.Context, h wire.Host, to *place) (_ catalog.SegmentEntry, err error) {
	var latest time.Time
	if !a.batch.Waives(wire.ReasonClock) {
		latest = a.batch.Received.Add(maxAhead)
	}
	if end, ok := a.until[h.Name]; ok && (latest.IsZero() || end.Add(maxLate).Before(latest)) {
		latest = end.Add(maxLate)
		defer func() {
			if refusal, ok := errors.AsType[*inbox.Refusal](err); ok && refusal.Reason == wire.ReasonClock {
				err = &inbox.OneHost{Refusal: tooLate(h, a.batch.Robot, end)}
			}
		}()
	}
	if to != nil {
		sum, err := a.file.Host(h, latest, io.Discard)
		if err != nil {
			return catalog.SegmentEntry{}, err
		}
		to.end, to.sha256 = sum.EndMember(), sum.SHA256
		return a.entry(h, sum, to.object, to.at), nil
	}
	crawled := h.First
	if crawled.IsZero() {
		crawled = a.m.Created
	}
	object := fmt.Sprintf("segments/%s/%s-%s-%d.tar.gz", naming.HostPath(h.Name), crawled.In(a.opt.Zone).Format("20060102"), a.batch.Batch, a.batch.Attempt)
	var sum *archive.Summary
	err = a.opt.Write(inbox.BoundaryStore, func() (err error) {
		out := put(ctx, a.opt.Store, object, sealedSize(&h))
		sum, err = a.file.Host(h, latest, out)
		if err == nil {
			_, err = out.Write(sum.EndMember())
		}
		perr := out.finish(err)
		switch {
		case out.failed || err == nil && perr != nil:
			return fmt.Errorf("store %s: %w", object, perr)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return err
	})
	if err != nil {
		return catalog.SegmentEntry{}, err
	}
	return a.entry(h, sum, object, 0), nil
}

// entry returns the catalog entry of a verified host's segment. at is the segment's offset in the
// object.
func (a *attempt) entry(h wire.Host, sum *archive.Summary, object string, at int64) catalog.SegmentEntry {
	e := catalog.SegmentEntry{
		Host: h.Name, Object: object, Offset: at, Length: sum.Size,
		IndexOffset: sum.IndexOffset, IndexLength: sum.IndexLength,
		First: sum.First, Last: sum.Last,
		Records: sum.Records, Revisits: sum.Revisits, Files: sum.Files,
		Preferences: sum.Asked,
		SHA256:      sum.SHA256, Views: make(map[string]catalog.View, len(sum.Views)),
		Origin: catalog.Origin{Batch: string(a.batch.Batch), BatchSHA256: a.batch.SHA256, Robot: a.batch.Robot, Collection: a.m.Collection.Name},
	}
	for kind, v := range sum.Views {
		e.Views[string(kind)] = catalog.View{Size: v.Size, SHA256: v.SHA256, ETag: v.ETag}
	}
	return e
}

// output is an object that is being stored.
type output struct {
	*io.PipeWriter
	done   chan error
	failed bool // the store gave up before the writer did
}

// put begins to store an object of the given size. The caller writes its bytes to the output.
func put(ctx context.Context, s store.Store, key string, size int64) *output {
	r, w := io.Pipe()
	out := &output{PipeWriter: w, done: make(chan error, 1)}
	go func() {
		err := s.Put(ctx, key, r, size)
		r.CloseWithError(err) // even with nil, so that nothing more is written
		out.done <- err
	}()
	return out
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.PipeWriter.Write(p)
	o.failed = o.failed || err != nil
	return n, err
}

// finish ends the object and waits for the store's answer. If cause is nil, the object must be
// whole; otherwise it is not stored.
func (o *output) finish(cause error) error {
	o.CloseWithError(cause)
	return <-o.done
}

// addCopies stores page digests of the batch's hosts that several robots collect in full, so that
// the manager can compare them. Without such hosts it costs one query. It can be repeated.
func (a *attempt) addCopies(ctx context.Context, file io.ReaderAt) error {
	copied, err := a.opt.Ledger.Copied(ctx)
	if err != nil {
		return err
	}
	for _, h := range a.m.Hosts {
		if !copied[h.Name] || a.left.has(h.Name) {
			continue
		}
		index, err := archive.ReadIndex(ctx, archive.FileSource(file, h.Offset), h.Length)
		if err == nil {
			err = a.opt.Ledger.AddCopy(ctx, a.batch.Robot, h.Name, index.Cells, a.opt.Now())
		}
		if err != nil {
			return fmt.Errorf("compare copies of %s: %w", h.Name, err)
		}
	}
	return nil
}

// maxLeftOut is how many hosts of a batch may be left out after they were read. A batch with more
// goes to the quarantine. This limits the work that a hostile batch can cause.
const maxLeftOut = 10

// leftOut has the hosts of a batch that are left out, and why.
type leftOut struct {
	hosts map[string]*inbox.Refusal
	read  int // how many of these were read
}

// add adds a host that was read and failed with err. It reports false if the host cannot be left
// out, so that the whole batch fails. hosts is the number of the batch's hosts.
func (l *leftOut) add(host string, hosts int, err error) bool {
	var e *inbox.OneHost
	if !errors.As(err, &e) || l.read == maxLeftOut || len(l.hosts)+1 == hosts {
		return false
	}
	l.read++
	l.put(host, e.Refusal)
	return true
}

func (l *leftOut) put(host string, why *inbox.Refusal) {
	if l.hosts == nil {
		l.hosts = make(map[string]*inbox.Refusal)
	}
	l.hosts[host] = why
}

func (l leftOut) has(host string) bool { return l.hosts[host] != nil }

// String says which hosts are left out, and why, for the robot and the operators.
func (l leftOut) String() string {
	if len(l.hosts) == 0 {
		return ""
	}
	const few = 10
	said := make([]string, 0, few)
	for _, host := range slices.Sorted(maps.Keys(l.hosts))[:min(few, len(l.hosts))] {
		said = append(said, host+": "+l.hosts[host].Error())
	}
	text := fmt.Sprintf("%d hosts are left out, the others are taken: %s", len(l.hosts), strings.Join(said, "; "))
	if more := len(l.hosts) - len(said); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// emptyMembers returns gzip members that decode to nothing and together have size bytes, at least
// 26. They fill the place of a host that is left out, so that its pack stays a tar.gz.
func emptyMembers(size int64) []byte {
	const (
		fixed = 10 + 2 + 4 + 2 + 8 // header, XLEN, a field's head, an empty block, trailer
		most  = 1 << 15
	)
	b := make([]byte, 0, size)
	for left := size; left > 0; left = size - int64(len(b)) {
		n := left
		if n > most {
			n = min(most, left-fixed)
		}
		field := int(n) - fixed
		b = append(b, "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff"...)
		b = binary.LittleEndian.AppendUint16(b, uint16(4+field))
		b = append(b, 'W', '0')
		b = binary.LittleEndian.AppendUint16(b, uint16(field))
		b = append(b, make([]byte, field)...)
		b = append(append(b, 3, 0), make([]byte, 8)...)
	}
	return b
}

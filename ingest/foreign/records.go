package foreign

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// original names a page by what a revisit says of it.
type original struct{ url, digest string }

// page is what a revisit of ours has to say of it.
type page struct {
	digest string
	time   time.Time
}

// warc converts record after record.
func (c *conversion) warc(in *stream) error {
	for {
		r, err := in.nextRecord()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.meter.entry(); err != nil {
			return wrong(r.at, r.url(), wire.ReasonBombRatio, "%v", err)
		}
		if err := c.block.fill(r.block); err != nil {
			return in.reading(err, r.url())
		}
		if c.block.size < r.length {
			return in.reading(io.ErrUnexpectedEOF, r.url())
		}
		if err := r.check(&c.block); err != nil {
			return in.reading(err, r.url())
		}
		if err := c.record(r); err != nil {
			return in.refused(err, r.at, r.url())
		}
	}
}

// errOther says that a record is not one that a segment can hold. It is no fault.
var errOther = errors.New("not for a segment")

// record stores a record in its host's segment, or beside the batch.
func (c *conversion) record(r *warcRecord) error {
	var err error
	switch kind := strings.ToLower(r.get("WARC-Type")); {
	case kind == "response" && r.isHTTP():
		err = c.response(r)
	case kind == "resource":
		err = c.resource(r)
	case kind == "revisit":
		err = c.revisit(r)
	default:
		err = errOther
	}
	if errors.Is(err, errOther) || errors.Is(err, archive.ErrRefused) {
		return c.beside(r)
	}
	return err
}

// beside keeps a record beside the batch.
func (c *conversion) beside(r *warcRecord) error {
	c.result.Others++
	return c.others.write(r, &c.block)
}

// base makes what every kind of record has.
func (c *conversion) base(r *warcRecord) (*archive.Record, error) {
	url, err := weburl.Parse("", r.url(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOther, err)
	}
	t, err := r.date()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOther, err)
	}
	rec := &archive.Record{URL: url, Time: t}
	if ip, err := netip.ParseAddr(r.get("WARC-IP-Address")); err == nil {
		rec.IP = ip.String()
	}
	switch why := r.get("WARC-Truncated"); why {
	case "", "length", "time", "disconnect":
		rec.Truncated = why
	default:
		rec.Truncated = "unspecified"
	}
	return rec, nil
}

func (c *conversion) response(r *warcRecord) error {
	rec, err := c.base(r)
	if err != nil {
		return err
	}
	answer, err := c.parse(r)
	if err != nil {
		return err
	}
	rec.Kind, rec.HTTP = archive.Response, answer.head
	if answer.status == http.StatusOK || answer.status == http.StatusNonAuthoritativeInfo {
		rec.Kind = archive.Page
	}
	body, done := answer.body()
	defer done()
	rec.Body = body
	cell, err := c.append(rec)
	if err == nil && cell.Truncated != rec.Truncated {
		err = c.beside(r) // whole
	}
	if err == nil && rec.Kind == archive.Page {
		c.originals[original{rec.URL, r.payload()}] = page{cell.Digest, cell.Time}
	}
	return err
}

// parse reads the HTTP answer in the record's block.
func (c *conversion) parse(r *warcRecord) (*response, error) {
	answer, err := parseResponse(&c.block, min(maxDecoded, c.meter.room()+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOther, err)
	}
	if answer.decoded {
		if err := c.meter.made(answer.size); err != nil {
			return nil, wrong(r.at, r.url(), wire.ReasonBombRatio, "%v", err)
		}
	}
	return answer, nil
}

// resource is a file that was had without HTTP, or by a program that kept no headers. It gets the header that
// says as much.
func (c *conversion) resource(r *warcRecord) error {
	rec, err := c.base(r)
	if err != nil {
		return err
	}
	media := r.get("Content-Type")
	if media == "" {
		media = "application/octet-stream"
	}
	rec.Kind = archive.Page
	rec.HTTP = fmt.Appendf(nil, "HTTP/1.0 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Crawler-Imported: resource\r\n\r\n",
		strings.Map(printable, media), c.block.size)
	rec.Body = c.block.from(0)
	cell, err := c.append(rec)
	if err == nil {
		c.originals[original{rec.URL, r.payload()}] = page{cell.Digest, cell.Time}
	}
	return err
}

func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return -1
	}
	return c
}

// revisit keeps a revisit of a page whose digest of ours is known: a revisit names that, and
// the same URL.
func (c *conversion) revisit(r *warcRecord) error {
	rec, err := c.base(r)
	if err != nil {
		return err
	}
	refersTo := rec.URL
	if to := strings.Trim(r.get("WARC-Refers-To-Target-URI"), "<> "); to != "" {
		if refersTo, err = weburl.Parse("", to, nil); err != nil {
			return fmt.Errorf("%w: %w", errOther, err)
		}
	}
	digest, _ := parseDigest(r.get("WARC-Payload-Digest"))
	known, ok := c.originals[original{refersTo, r.payload()}]
	switch {
	case refersTo != rec.URL:
		return errOther
	case ok:
	case digest.ours() != "":
		known.digest = digest.ours()
		known.time, _ = time.Parse(time.RFC3339Nano, r.get("WARC-Refers-To-Date")) // zero where it is not given
	default:
		return errOther
	}
	rec.Kind, rec.Truncated = archive.Revisit, ""
	rec.PayloadDigest, rec.RefersTo, rec.RefersDate = known.digest, rec.URL, known.time
	if strings.HasSuffix(r.get("WARC-Profile"), "/server-not-modified") {
		rec.Profile = archive.ServerNotModified
	}
	rec.HTTP = []byte("HTTP/1.1 304 Not Modified\r\n\r\n")
	if c.block.size > 0 {
		answer, err := c.parse(r)
		if err != nil {
			return err
		}
		rec.HTTP = answer.head
	}
	_, err = c.append(rec)
	return err
}

// Stretch is a run of records among those that no segment holds.
type Stretch struct {
	Host    string // whose they are; empty: of no host that the batch brings
	Offset  int64
	Size    int64
	Records int64
}

// others writes records as they came, a gzip member each.
type others struct {
	out io.Writer
	n   int64
	z   *gzip.Writer
	of  []Stretch // one record's, or that of several of a host in a row; until assign of any host
}

func newOthers(out io.Writer) *others {
	if out == nil {
		out = io.Discard
	}
	return &others{out: out, z: gzip.NewWriter(nil)}
}

// Write counts what goes out.
func (o *others) Write(p []byte) (int, error) {
	n, err := o.out.Write(p)
	o.n += int64(n)
	return n, err
}

// noHost stands for the host of records that are not of the web's, until assign.
const noHost = "-"

// hostOfOther tells whose a record is: by its URL, or by the name that a look-up was for.
func hostOfOther(target string) string {
	if name, ok := strings.CutPrefix(strings.ToLower(target), "dns:"); ok {
		target = "http://" + name[strings.LastIndexByte(name, '/')+1:] + "/" // RFC 4501: an authority may stand before the name
	}
	url, err := weburl.Parse("", target, nil)
	if err != nil {
		return noHost
	}
	host, err := archive.HostOf(url)
	if err != nil {
		return noHost
	}
	return host
}

// assign leaves the records to the hosts that the batch brings. What is of no host at all, such as a crawler's own notes,
// is the host's if there is but one; it may tell of every host of the file.
func (o *others) assign(hosts []wire.Host) []Stretch {
	brought := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		brought[h.Name] = true
	}
	var of []Stretch
	for _, s := range o.of {
		switch {
		case s.Host == noHost && len(hosts) == 1:
			s.Host = hosts[0].Name
		case !brought[s.Host]:
			s.Host = ""
		}
		of = appendStretch(of, s)
	}
	return of
}

// appendStretch joins what follows on one another.
func appendStretch(of []Stretch, s Stretch) []Stretch {
	if n := len(of) - 1; n >= 0 && of[n].Host == s.Host {
		of[n].Size += s.Size
		of[n].Records += s.Records
		return of
	}
	return append(of, s)
}

func (o *others) write(r *warcRecord, b *block) error {
	at := o.n
	if err := o.member(r, b); err != nil {
		return err
	}
	o.of = appendStretch(o.of, Stretch{hostOfOther(r.url()), at, o.n - at, 1})
	return nil
}

func (o *others) member(r *warcRecord, b *block) error {
	o.z.Reset(o)
	if _, err := o.z.Write(r.head); err != nil {
		return err
	}
	if _, err := io.Copy(o.z, b.from(0)); err != nil {
		return err
	}
	if _, err := io.WriteString(o.z, crlf2); err != nil {
		return err
	}
	return o.z.Close()
}

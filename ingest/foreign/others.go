package foreign

import (
	"cmp"
	"compress/gzip"
	"io"
	"strings"

	"sheaf/archive/naming"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
)

// Stretch is a range of bytes of Options.Others, with records of one host.
type Stretch struct {
	Host    string // empty: none of the batch's hosts
	Offset  int64
	Size    int64
	Records int64
}

// others writes the records that no segment can hold, unchanged, each as one gzip member.
type others struct {
	out       io.Writer
	n         int64 // bytes written
	z         *gzip.Writer
	stretches []Stretch // of any host, until assign selects the batch's hosts
}

func newOthers(out io.Writer) *others {
	out = cmp.Or(out, io.Discard)
	return &others{out: out, z: gzip.NewWriter(nil)}
}

// Write writes to out and counts the bytes.
func (o *others) Write(p []byte) (int, error) {
	n, err := o.out.Write(p)
	o.n += int64(n)
	return n, err
}

// noHost stands, until assign, for the host of records that belong to no host.
const noHost = "-"

// hostOfOther returns the host of a record's target URL, or the host in the target of a DNS record,
// or noHost.
func hostOfOther(target string) string {
	if name, ok := strings.CutPrefix(strings.ToLower(target), "dns:"); ok {
		target = "http://" + name[strings.LastIndexByte(name, '/')+1:] + "/" // an authority may stand before the name (RFC 4501)
	}
	url, err := weburl.About(target)
	if err != nil {
		return noHost
	}
	host, err := naming.HostOf(url)
	if err != nil {
		return noHost
	}
	return host
}

// assign returns all stretches, with "" for hosts that are not the batch's. Records of no host,
// such as the crawler's own notes, belong to the batch's host if it has only one.
func (o *others) assign(hosts []wire.Host) []Stretch {
	brought := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		brought[h.Name] = true
	}
	var of []Stretch
	for _, s := range o.stretches {
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

// appendStretch appends a stretch, or extends the last stretch if that has the same host.
func appendStretch(of []Stretch, s Stretch) []Stretch {
	if n := len(of) - 1; n >= 0 && of[n].Host == s.Host {
		of[n].Size += s.Size
		of[n].Records += s.Records
		return of
	}
	return append(of, s)
}

// add adds a record with the given head and block, under r's host.
func (o *others) add(r *warcRecord, head []byte, block io.Reader) error {
	at := o.n
	if err := o.member(head, block); err != nil {
		return err
	}
	o.stretches = appendStretch(o.stretches, Stretch{hostOfOther(r.url()), at, o.n - at, 1})
	return nil
}

func (o *others) member(head []byte, block io.Reader) error {
	o.z.Reset(o)
	if _, err := o.z.Write(head); err != nil {
		return err
	}
	if _, err := io.Copy(o.z, block); err != nil {
		return err
	}
	if _, err := io.WriteString(o.z, crlf2); err != nil {
		return err
	}
	return o.z.Close()
}

package results

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/internal/preference"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/texts"
)

// row is one row of the table of records. Its columns up to warc_segment have the names and
// meanings of Common Crawl's columnar index. A text or number that is empty is NULL.
type row struct {
	SURTKey string `parquet:"url_surtkey"`
	URL     string `parquet:"url"`
	hostColumns
	Path  string `parquet:"url_path,optional"`
	Query string `parquet:"url_query,optional"`
	fetchColumns
	placeColumns
	ownColumns
	preferenceColumns
}

// hostColumns are the columns that follow from the host.
type hostColumns struct {
	Name             string `parquet:"url_host_name,dict"`
	TLD              string `parquet:"url_host_tld,optional,dict"`
	SecondLast       string `parquet:"url_host_2nd_last_part,optional,dict"`
	ThirdLast        string `parquet:"url_host_3rd_last_part,optional,dict"`
	FourthLast       string `parquet:"url_host_4th_last_part,optional,dict"`
	FifthLast        string `parquet:"url_host_5th_last_part,optional,dict"`
	RegistrySuffix   string `parquet:"url_host_registry_suffix,optional,dict"`
	RegisteredDomain string `parquet:"url_host_registered_domain,optional,dict"`
	PrivateSuffix    string `parquet:"url_host_private_suffix,optional,dict"`
	PrivateDomain    string `parquet:"url_host_private_domain,optional,dict"`
	Reversed         string `parquet:"url_host_name_reversed,optional,dict"`
	Protocol         string `parquet:"url_protocol,dict"`
	Port             int32  `parquet:"url_port,optional,dict"`
}

// fetchColumns are what the server answered. Sheaf does not know the columns that are never set;
// they are here so that queries written for Common Crawl run.
type fetchColumns struct {
	Time         int64  `parquet:"fetch_time,timestamp(microsecond)"`
	Status       int32  `parquet:"fetch_status,dict"`
	Redirect     string `parquet:"fetch_redirect,optional,dict"` // never set
	Digest       string `parquet:"content_digest,optional"`
	MIME         string `parquet:"content_mime_type,optional,dict"`
	MIMEDetected string `parquet:"content_mime_detected,optional,dict"` // never set
	Charset      string `parquet:"content_charset,optional,dict"`       // see records.Capture.Written
	Languages    string `parquet:"content_languages,optional,dict"`     // of ISO 639-3
	Truncated    string `parquet:"content_truncated,optional,dict"`
}

// placeColumns say where the record lies in a file that the service serves.
type placeColumns struct {
	Filename string `parquet:"warc_filename,dict"`
	Offset   int64  `parquet:"warc_record_offset"`
	Length   int64  `parquet:"warc_record_length"`
	Segment  string `parquet:"warc_segment,dict"` // the edition
}

// ownColumns are those that Common Crawl does not have.
type ownColumns struct {
	Host    string `parquet:"host,dict"` // with its port
	Kind    string `parquet:"kind,dict"`
	Refers  int64  `parquet:"refers_time,optional,timestamp(microsecond)"` // of the page that a revisit refers to
	Edition string `parquet:"edition,dict"`
	Robot   string `parquet:"robot,optional,dict"`
	Batch   string `parquet:"batch,dict"`
	Of      string `parquet:"collection,optional,dict"` // as which it was imported

	Language string `parquet:"language,optional,dict"` // of a page, as BCP 47 has it
}

// preferenceColumns are what the page's owner asks of those who use it: see package preference.
type preferenceColumns struct {
	ContentUsage   string `parquet:"content_usage,optional,dict"`
	ContentSignal  string `parquet:"content_signal,optional,dict"`
	RobotsTag      string `parquet:"x_robots_tag,optional,dict"`
	RobotsMeta     string `parquet:"robots_meta,optional,dict"`
	TDMReservation string `parquet:"tdm_reservation,optional,dict"`
	TDMPolicy      string `parquet:"tdm_policy,optional,dict"`
	CrawlerPrice   string `parquet:"crawler_price,optional,dict"`
	License        string `parquet:"license,optional,dict"`
}

// rowOf returns a record's row but for its place and charset. of has the columns of the record's
// host.
func rowOf(c *records.Capture, of hostColumns) row {
	r := row{SURTKey: c.URLKey, URL: c.URL, hostColumns: of}
	scheme, rest, _ := strings.Cut(c.URL, "://")
	r.Protocol = scheme
	_, path, _ := strings.Cut(rest, "/")
	path, _, _ = strings.Cut(path, "#")
	path, r.Query, _ = strings.Cut(path, "?")
	r.Path = "/" + path
	r.fetchColumns = fetchColumns{
		Time: c.Time.UnixMicro(), Status: int32(c.Status), Digest: c.Digest, MIME: c.MIME, Truncated: c.Truncated,
	}
	if c.Kind == archive.Revisit || c.MIME == archive.UnknownMIME {
		r.MIME = "" // the index's own words: see archive.Cell
	}
	r.placeColumns = placeColumns{Length: c.WARCLength(), Segment: c.Segment.Edition}
	r.ownColumns = ownColumns{
		Host: c.Segment.Host, Kind: c.Kind.String(), Edition: c.Segment.Edition, Robot: c.Segment.Robot, Batch: c.Segment.Batch, Of: c.Segment.Collection,
	}
	if c.Preferences != "" {
		r.preferenceColumns = asked(c.Preferences)
	}
	if !c.RefersDate.IsZero() {
		r.Refers = c.RefersDate.UnixMicro()
	}
	return r
}

func asked(preferences string) preferenceColumns {
	value := func(name string) string { return strings.ToValidUTF8(preference.Value(preferences, name), "\ufffd") }
	return preferenceColumns{
		ContentUsage: value(preference.ContentUsage), ContentSignal: value(preference.ContentSignal), RobotsTag: value(preference.RobotsTag), RobotsMeta: value(preference.RobotsMeta),
		TDMReservation: value(preference.TDMReservation), TDMPolicy: value(preference.TDMPolicy), CrawlerPrice: value(preference.CrawlerPrice),
		License: value(preference.License),
	}
}

// columnsOf returns the columns of a host, without the protocol.
func columnsOf(host string) hostColumns {
	of := hostColumns{Name: host}
	if name, port, err := net.SplitHostPort(host); err == nil {
		n, _ := strconv.ParseUint(port, 10, 16) // naming.HostOf has checked it
		of.Name, of.Port = name, int32(n)
	}
	name := strings.Trim(of.Name, "[]")
	if _, err := netip.ParseAddr(name); err == nil {
		of.Name = name
		return of
	}
	labels := strings.Split(name, ".")
	slices.Reverse(labels)
	of.Reversed = strings.Join(labels, ".")
	for i, part := range []*string{&of.TLD, &of.SecondLast, &of.ThirdLast, &of.FourthLast, &of.FifthLast} {
		if i < len(labels) {
			*part = labels[i]
		}
	}
	suffix, official := publicsuffix.PublicSuffix(name)
	of.PrivateSuffix, of.PrivateDomain = suffix, below(suffix, name)
	for !official {
		_, parent, ok := strings.Cut(suffix, ".")
		if !ok {
			break // a name that the list does not have
		}
		suffix, official = publicsuffix.PublicSuffix(parent)
	}
	of.RegistrySuffix, of.RegisteredDomain = suffix, below(suffix, name)
	return of
}

// below returns the part of a name that is a domain directly below a suffix, or "" if the name is
// the suffix.
func below(suffix, name string) string {
	rest, ok := strings.CutSuffix(name, "."+suffix)
	if !ok {
		return ""
	}
	return rest[strings.LastIndexByte(rest, '.')+1:] + "." + suffix
}

const writtenAtOnce = 8 // records that are read at the same time

// setWritten sets the charset and the language of each row from its record.
func setWritten(ctx context.Context, rows []row, of []*records.Capture) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writtenAtOnce)
	for i, c := range of {
		g.Go(func() (err error) {
			r := &rows[i]
			r.Charset, r.Language, err = c.Written(ctx)
			r.Languages = texts.ISO3(r.Language)
			return err
		})
	}
	return g.Wait()
}

// changeRow is a row of a table of what a day changed. docs/queries.md describes the columns.
type changeRow struct {
	Host       string     `parquet:"host,dict"`
	URL        *string    `parquet:"url,optional"`
	ID         *string    `parquet:"id,optional"`
	Change     string     `parquet:"change,dict"`
	Time       *time.Time `parquet:"time,optional,timestamp(microsecond)"`
	Status     *int32     `parquet:"status,optional"`
	Digest     *string    `parquet:"digest,optional"`
	File       *string    `parquet:"file,optional"`
	To         *string    `parquet:"to,optional"`
	Forbidden  *string    `parquet:"forbidden,optional,dict"`
	Day        *string    `parquet:"day,optional,dict"`
	Volume     *string    `parquet:"volume,optional,dict"`
	TarOffset  *int64     `parquet:"tar_offset,optional"`
	TarLength  *int64     `parquet:"tar_length,optional"`
	WARCOffset *int64     `parquet:"warc_offset,optional"`
	WARCLength *int64     `parquet:"warc_length,optional"`
}

// Changes writes a table of what a day changed. It must not be used concurrently.
type Changes struct{ *rowWriter[changeRow] }

// NewChanges begins a table in to. Close must end it.
func NewChanges(to io.Writer) *Changes { return &Changes{newRowWriter[changeRow](to)} }

// Add adds a row, which may wait in memory until Close.
func (c *Changes) Add(l library.DayChange) error {
	row := changeRow{Host: l.Host, URL: some(l.URL), ID: some(l.ID), Change: l.Change, Time: some(l.Time), Status: some(int32(l.Status)), Digest: some(l.Digest), File: some(l.File), To: some(l.To), Forbidden: some(l.Forbidden)}
	if at := l.DayPlace; at != nil {
		row.Day, row.Volume = &at.Day, &at.Volume
		row.TarOffset, row.TarLength, row.WARCOffset, row.WARCLength = &at.Tar.Offset, &at.Tar.Length, &at.WARC.Offset, &at.WARC.Length
	}
	return c.write(row)
}

// some returns a value for an optional column: nil for the zero value.
func some[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

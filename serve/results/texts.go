package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/texts"
)

// textRow is one row of the table of texts: a page that a server sent as HTML.
type textRow struct {
	SURTKey   string `parquet:"url_surtkey"`
	URL       string `parquet:"url"`
	Host      string `parquet:"host,dict"` // with its port
	Time      int64  `parquet:"fetch_time,timestamp(microsecond)"`
	Status    int32  `parquet:"fetch_status,dict"`
	Digest    string `parquet:"content_digest,optional"`
	Charset   string `parquet:"content_charset,optional,dict"`
	Declared  string `parquet:"declared_charset,optional,dict"` // if the page says another
	Language  string `parquet:"language,optional,dict"`
	Languages string `parquet:"content_languages,optional,dict"` // the same in ISO 639-3
	Title     string `parquet:"title,optional"`
	Text      string `parquet:"text,optional"`
	SimHash   uint64 `parquet:"simhash,optional"`
	Reason    string `parquet:"text_reason,optional,dict"` // why there is no text, or not all
	Version   int32  `parquet:"text_version,dict"`
	placeColumns
	Edition string `parquet:"edition,dict"`
}

// Fewer texts are held at once than other rows, since other rows are short.
const (
	textsAtOnce = 32       // pages that are read before their rows are written
	textGroup   = 32 << 20 // bytes of text in a row group
	textPage    = 1 << 20  // bytes of a page; smaller ones, of few texts, take several times the room
)

// textWriter writes the texts of records in one of the two forms, or in both.
type textWriter struct {
	table *parquet.GenericWriter[textRow] // nil: is not wanted
	wet   *texts.WET                      // nil: is not wanted
	next  []*records.Capture
	rows  int64
	size  int64 // of the texts since the last row group
}

// read is what was read of a record.
type read struct {
	text *texts.Text // nil: the record is no page
	id   string      // the WARC-Record-ID
}

// extracting bounds how many pages this process reads at once for their texts, whoever asks.
var extracting = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// readText reads the text of a record that has a page of its own.
func readText(ctx context.Context, c *records.Capture) (r read, err error) {
	if !c.Kind.HasFile() && c.Kind != archive.Response {
		return r, nil
	}
	if c.MIME != archive.UnknownMIME && !texts.IsPage(c.MIME, nil) {
		return r, nil
	}
	select {
	case extracting <- struct{}{}:
		defer func() { <-extracting }()
	case <-ctx.Done():
		return r, ctx.Err()
	}
	answer, err := c.Response(ctx)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(answer.Body, texts.MaxBody+1))
		answer.Body.Close()
	}
	if _, ok := errors.AsType[*records.DamageError](err); ok {
		return read{text: &texts.Text{Reason: texts.Damaged}}, nil
	}
	if err != nil || !texts.IsPage(answer.ContentType(), body[:min(len(body), texts.HeadBytes)]) {
		return r, err
	}
	for _, h := range answer.WARC {
		if h.Name == "WARC-Record-ID" {
			r.id = h.Value
		}
	}
	r.text = texts.Extract(body, answer.ContentType())
	return r, nil
}

func (w *textWriter) Add(ctx context.Context, c *records.Capture) error {
	if w.next = append(w.next, c); len(w.next) < textsAtOnce {
		return nil
	}
	return w.flush(ctx)
}

func (w *textWriter) flush(ctx context.Context) error {
	found := make([]read, len(w.next))
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(cap(extracting))
	for i, c := range w.next {
		g.Go(func() (err error) {
			found[i], err = readText(within, c)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, c := range w.next {
		if found[i].text == nil {
			continue
		}
		if err := w.write(ctx, c, found[i]); err != nil {
			return fmt.Errorf("text of %.200s: %w", c.URL, err)
		}
	}
	w.next = w.next[:0]
	return nil
}

func (w *textWriter) write(ctx context.Context, c *records.Capture, r read) error {
	t := r.text
	w.rows++
	if w.wet != nil {
		if err := w.wet.Add(t, texts.Origin{URL: c.URL, Time: c.Time, Record: r.id}); err != nil {
			return err
		}
	}
	if w.table == nil {
		return nil
	}
	row := textRow{
		SURTKey: c.URLKey, URL: c.URL, Host: c.Segment.Host, Time: c.Time.UnixMicro(), Status: int32(c.Status), Digest: c.Digest,
		Charset: t.Charset, Declared: t.Declared, Language: t.Language, Languages: texts.ISO3(t.Language), Title: t.Title, Text: t.Main, SimHash: t.SimHash, Reason: t.Reason, Version: texts.Version,
		placeColumns: placeColumns{Length: c.WARCLength(), Segment: c.Segment.Edition}, Edition: c.Segment.Edition,
	}
	var err error
	if row.Filename, row.Offset, err = c.Place(ctx); err != nil {
		return err
	}
	if _, err := w.table.Write([]textRow{row}); err != nil {
		return err
	}
	if w.size += int64(len(row.Text)); w.size < textGroup {
		return nil
	}
	w.size = 0
	return w.table.Flush()
}

func (w *textWriter) finish(ctx context.Context) error {
	err := w.flush(ctx)
	if w.table != nil {
		err = errors.Join(err, w.table.Close())
	}
	return err
}

// MakeTexts makes the texts of hosts' pages, as a table and as a WET file. hosts are in the order
// of the tree. Each page is read once.
func (x *Files) MakeTexts(ctx context.Context, from *records.Records, a *account.Account, hosts []*library.Host) (table, wet *Table, err error) {
	table, err = x.write(ctx, a, func(to io.Writer) (rows int64, err error) {
		wet, err = x.write(ctx, a, func(second io.Writer) (int64, error) {
			w := &textWriter{table: newParquet[textRow](to, textPage)}
			if w.wet, err = texts.NewWET(second); err == nil {
				err = textsOf(ctx, from, a, hosts, w)
			}
			rows = w.rows
			return rows, err
		})
		return rows, err
	})
	return table, wet, err
}

// WriteTexts writes the texts of a host in a form, api.TableOfTexts or api.TextsAsWET.
func WriteTexts(ctx context.Context, from *records.Records, a *account.Account, h *library.Host, form string, to io.Writer) (err error) {
	w := new(textWriter)
	if form == api.TableOfTexts {
		w.table = newParquet[textRow](to, textPage)
	} else if w.wet, err = texts.NewWET(to); err != nil {
		return err
	}
	return textsOf(ctx, from, a, []*library.Host{h}, w)
}

func textsOf(ctx context.Context, from *records.Records, a *account.Account, hosts []*library.Host, w *textWriter) error {
	for _, h := range hosts {
		if err := from.OfHost(ctx, a, h, func(c *records.Capture) error { return w.Add(ctx, c) }); err != nil {
			return err
		}
	}
	return w.finish(ctx)
}

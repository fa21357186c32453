package tree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"github.com/klauspost/pgzip"

	"sheaf/internal/cache"
	"sheaf/internal/display"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// zipBlock is how much text is compressed at once, in bytes. The file's bytes depend on it.
const zipBlock = 1 << 20

// zipped compresses what write writes: to the same bytes each time.
func zipped(w io.Writer, write func(io.Writer) error) error {
	z, err := pgzip.NewWriterLevel(w, pgzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := z.SetConcurrency(zipBlock, 2); err != nil {
		return err
	}
	return errors.Join(write(z), z.Close())
}

// longText returns a text that may be long. It is written once for all readers with the same
// version and scope. write may run on when its reader has gone, so it gets a finder of its own.
func (f *finder) longText(ctx context.Context, d library.Document, write func(f *finder, ctx context.Context, w io.Writer) error) (*library.Entry, error) {
	d.Spools = f.view.Archive.Spools
	d.Write = func(ctx context.Context, w io.Writer) error {
		own := f.view.Again()
		if own == nil {
			return cache.ErrLeft
		}
		defer own.Release()
		return write(&finder{f.tree, own}, ctx, w)
	}
	return d.Entry(ctx, f.view.Archive.Memo)
}

// listingOfAll returns /ls-lR.gz: the editions' files of every host, in one pass over the catalog.
// Files that change with every edition (current, all, MANIFEST) are not in it, since all segments'
// indexes would have to be read for their sizes.
func (f *finder) listingOfAll(ctx context.Context) (*library.Entry, error) {
	d := library.Document{
		Name: fileListing, Type: "application/gzip", Modified: f.view.Modified(f.view.Snap.Published(), "", library.Any),
		Key: fmt.Sprintf("all %d %s", f.view.Snap.Version(), f.view.Seen()),
	}
	return f.longText(ctx, d, func(f *finder, ctx context.Context, w io.Writer) error {
		return zipped(w, func(w io.Writer) error { return f.writeListingOfAll(ctx, w) })
	})
}

func (f *finder) writeListingOfAll(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	for _, root := range f.view.Scope {
		for _, prefix := range library.KeyPrefixes(root) {
			for h, err := range f.view.HostsOf(f.view.Snap.Entries(ctx, prefix, "")) {
				if err != nil {
					return err
				}
				if !account.Within(h.Place, root) {
					continue
				}
				place, err := f.shown(ctx, h.Place)
				if err != nil {
					return err
				}
				if err := h.WriteListings(ctx, out, place); err != nil {
					return err
				}
			}
		}
	}
	return out.Flush()
}

// readmeDate is when the text of /README last changed.
var readmeDate = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

var readmeText = template.Must(template.New(fileReadme).Parse(`ARCHIVES OF COLLECTED PAGES

What is where
  /LATEST                      the name of the newest edition
  /editions/<edition>/         what one edition brought: HOSTS, MANIFEST, SHA256SUMS,
                               ls-lR.gz; of very many hosts, in shards 00001, 00002, …
  /days/<day>/jp/              all that a day's editions brought of a domain, in volumes
                               of about 1 GiB:
      00001.tar.gz, .warc.gz   many hosts' files, one after another
      00001.jsonl              the hosts, and where in the volume each one is
      changes.jsonl.gz         what is new, changed, gone, moved or withdrawn, and where
                               it lies; also changes.parquet
      00001.records.parquet    a table of the records; also .hosts. and .links.
      00001.texts.parquet      title, main text and language of each page; also .wet.gz
      MANIFEST                 whether the day is complete, and all these files
  /current/<edition>/jp/       the latest version of every page of a domain when the edition
                               had been published, in such volumes, if they are offered;
                               also .links.parquet, .inlinks.parquet, .linkhosts.parquet
  /ls-lR.gz                    every edition's files of every host, as ls -lR lists
                               them (made when it is asked for, and not listed)
  /feed/                       what was published, taken down or has expired, in
                               numbered files; sheaf mirror follows them
  /jp/ac/waseda/www/           a host, by its reversed name: www.waseda.ac.jp
      <edition>.tar.gz         what the edition brought of it; never changes
      current.tar.gz           the latest version of every page
      all.tar.gz               everything collected, in order of publication
      MANIFEST, SHA256SUMS     sizes, digests, provenance

  A directory of very many hosts is divided by first letters: /jp/ne/blog/a+/aki/.
  The plain /jp/ne/blog/aki/ is valid too. Every domain has volumes, such as
  /days/<day>/jp/ac/, but only those of top-level domains are listed.
  An edition is named by the day of its publication, such as 20261121; a second
  one of that day is 20261121-2.

Every archive comes in these forms
  .tar.gz           page files, for tar xzf. With tar --xattrs each file carries
                    its URL and media type
  .warc.gz          WARC/1.1 records with all HTTP headers, redirects and errors too
  .links.gz         where the pages lead, a line a link: source, target, kind, rel,
                    text, with tabs between; if known (current's is not listed)
  .others.warc.gz   of imported archives: requests, metadata and all other records
                    that are no answers; if there were any (not of current)
  .members.tar.gz   the same files as .tar.gz, one gzip member a page (not listed)
  .cdxj             the index of the records in the .warc.gz (not listed)
  .wacz             records, index and pages, for ReplayWeb.page (not listed)
  and so does a span of days, such as 20261101-20261121.tar.gz (not listed)

How to fetch
  Transfers may be resumed: curl -C -, wget -c, lftp's mirror -c. A file of an
  edition never changes, and all.* only grows at its end, but its last bytes
  change: to fetch a longer one, start anew or use the new editions. current.*
  changes with every edition that brings something of the host. FTP refuses to go
  on in a file that has changed meanwhile, or of which it does not know (554); by
  HTTP, If-Range with the ETag tells whether what you have still fits.
  Check with: sha256sum -c SHA256SUMS
  A page is in current.* unless its server has said that it is gone (404, 410)
  or has moved for good (301, 308).

Your account
  may fetch   {{.Domains}}
  when        {{.Window}}
  how fast    {{.Rate}}
  a day       {{.Quota}}
  At other times you may look around, and this file and /feed can be read; FTP answers
  450 and HTTP 503 (429 when the day's bytes are used up) with the time from which
  downloads are allowed. Rates are bytes a second, shared by your connections.
{{- with .Contact}}

Questions: {{.}}
{{- end}}
`))

func (f *finder) readme() ([]byte, error) {
	a := f.view.Account
	domains := strings.Join(a.Domains, " ")
	if f.view.Scope.Everything() {
		domains = "every host"
	}
	quota := "any number of bytes"
	if a.Quota > 0 {
		quota = display.FormatBytes(a.Quota)
	}
	var text bytes.Buffer
	err := readmeText.Execute(&text, map[string]any{
		"Domains": domains, "Window": a.Window.String(), "Rate": a.Rate.String(), "Quota": quota, "Contact": f.tree.opt.Contact,
	})
	return text.Bytes(), err
}

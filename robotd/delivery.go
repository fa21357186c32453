package robotd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

// answerTimeout is how long a target may take to answer once it has all that was sent.
const answerTimeout = 5 * time.Minute

// openUploader makes the uploader to the targets of the settings.
func (r *Robot) openUploader() error {
	var targets []batch.Target
	var receipts []batch.ReceiptSource
	urls, err := targetURLs(&r.cfg, r.id)
	if err != nil {
		return err
	}
	proxies, err := batch.Proxies(r.cfg.Upload.Proxy)
	if err != nil {
		return settings.Wrong("upload.proxy", r.cfg.Upload.Proxy, err.Error())
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = func(req *http.Request) (*url.URL, error) { return proxies(req.URL) }
	transport.ResponseHeaderTimeout = answerTimeout
	web := &http.Client{Transport: transport}
	for _, s := range urls {
		to, err := r.target(s, proxies, web)
		if err != nil {
			return err
		}
		targets, receipts = append(targets, to), append(receipts, to)
	}
	r.uploader = batch.NewUploader(batch.UploaderOptions{
		Spool: r.records.Batches, Targets: targets, Receipts: batch.NewReceiptSources(receipts...), Log: r.log,
		Poll: r.cfg.Upload.Poll, BackOff: min(r.cfg.Upload.Poll, backOff), Published: r.published, Quarantined: r.quarantined,
	})
	return nil
}

// published keeps the receipt of a batch. If the disk is full, the batch must leave it all the
// same.
func (r *Robot) published(b batch.Spooled, receipt *wire.Receipt) error {
	err := config.SaveJSON(r.path("receipts", string(b.ID)+".json"), receipt)
	if files.IsFull(err) {
		r.log.Warn("receipt not kept", "batch", b.ID, "edition", receipt.Edition, "version", receipt.Version, "err", err)
		return nil
	}
	return err
}

// quarantined forgets what the robot knows of the batch's pages. Their full copies were never
// published, so no revisit may refer to them.
func (r *Robot) quarantined(b batch.Spooled, _ *wire.Receipt) error {
	for _, host := range b.Hosts {
		r.records.Watched.Forget(host)
		if err := r.records.Frontier.ForgetVisits(host); err != nil {
			return err
		}
	}
	return nil
}

// backOff is the longest wait after a first failed upload. The wait doubles with each further
// failure.
const backOff = 10 * time.Second

// targetURLs returns the URLs of the targets, in the order of preference.
func targetURLs(cfg *config.Config, id *client.Identity) (urls []string, err error) {
	if len(cfg.Upload.Targets) == 0 {
		return cfg.Manager, nil
	}
	for _, t := range cfg.Upload.Targets {
		switch {
		case t == config.HTTP:
			urls = append(urls, cfg.Manager...)
		case t != config.FTP:
			urls = append(urls, t)
		case id.FTP == "":
			return nil, settings.Wrong("upload.targets", config.FTP, "the service named no FTP server; want ftp://host:port")
		default:
			urls = append(urls, "ftp://"+id.FTP)
		}
	}
	return urls, nil
}

// target takes batches and gives out receipts.
type target interface {
	batch.Target
	batch.ReceiptSource
}

// target makes the target of a URL. Its requests by HTTP go through web.
func (r *Robot) target(s string, proxies batch.ProxyFunc, web *http.Client) (target, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, settings.Wrong("upload.targets", s, err.Error())
	}
	moved := func(at int64, first bool) { r.uploader.Moved(at, first) } // r.uploader is set before anything is sent
	if !strings.HasPrefix(u.Scheme, "ftp") {
		return &batch.HTTP{
			Base: strings.TrimSuffix(s, "/"), Robot: r.id.Robot, Secret: r.id.Secret, Key: r.keys, Client: web, Moved: moved,
		}, nil
	}
	f := &batch.FTP{Addr: u.Host, Robot: r.id.Robot, Secret: r.id.Secret, Key: r.keys, Dir: u.Path, Moved: moved}
	if u.Port() == "" {
		f.Addr = net.JoinHostPort(u.Hostname(), "21")
	}
	if f.Proxy, err = proxies(u); err != nil {
		return nil, settings.Wrong("upload.proxy", r.cfg.Upload.Proxy, err.Error())
	}
	if u.Scheme == "ftps" {
		f.TLS = &tls.Config{}
	}
	return f, nil
}

// Drain uploads until every batch in the spool is published or put aside.
func (r *Robot) Drain(ctx context.Context) error { return r.uploader.Drain(ctx) }

// describeUploads adds to a status what is being made into a batch, the batches in the spool, and
// the targets.
func (r *Robot) describeUploads(s *control.Status) error {
	u := r.uploader.State()
	pending, err := r.records.Batches.Pending()
	var serr error
	s.Sealing, serr = r.records.Batches.Sealing()
	for _, p := range pending {
		is := u.Batches[p.ID]
		b := control.Batch{ID: p.ID, Bytes: p.Bytes, Made: p.Made, State: string(is.Known), Error: is.Error, Next: is.Next}
		if b.Next.IsZero() { // it has just come
			b.Next = u.Next
		}
		if u.Sending == b.ID {
			b.To, b.Sent = u.To, u.Moved
			if took := s.At.Sub(u.Since).Seconds(); took >= 1 {
				b.Rate = int64(float64(u.Moved-u.From) / took)
			}
		}
		s.Spool = append(s.Spool, b)
	}
	s.Targets = u.Targets
	return errors.Join(err, serr)
}

// troubles returns what keeps the robot from its work, for the manager: too little space, hosts
// that cannot be reached, or a service that does not take its batches.
func (r *Robot) troubles() map[wire.Trouble]string {
	found := make(map[wire.Trouble]string)
	if s, err := r.status(0); err == nil { // what writes to a failing disk reports that
		if why := unreached(&s); why != "" {
			found[wire.TroubleHosts] = why
		}
	}
	if why := r.manners.Admission.Short(); why != "" {
		found[wire.TroubleDisk] = brief(why)
	}
	u := r.uploader.State()
	for _, t := range u.Targets {
		if t.Failures == 0 {
			return found // one of them works, or was not needed
		}
	}
	for _, id := range slices.Sorted(maps.Keys(u.Batches)) {
		if b := u.Batches[id]; b.Known == "" && b.Error != "" {
			found[wire.TroubleUpload] = brief(string(id) + ": " + b.Error)
			break
		}
	}
	return found
}

// brief cuts a text to what a heartbeat may say of a trouble.
func brief(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), wire.MaxTrouble)], "")
}

// seal makes a batch of all that was collected, after an express batch if one is due. It goes on
// when ctx ends: the robot seals once more at its end, and would have to begin a broken-off batch
// anew.
func (r *Robot) seal(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if r.cfg.Express > 0 {
		if err := r.sealExpress(ctx, 0); err != nil {
			return err
		}
	}
	if c := r.crawler.Current(); c != nil {
		if err := c.AccountLeft(); err != nil {
			return err
		}
	}
	if _, err := r.records.Batches.Seal(ctx, r.list.List().Generation, nil); err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	return nil
}

// sealExpress makes a batch of the hosts with a change of a watched page, unless the last express
// batch was made less than rest ago.
func (r *Robot) sealExpress(ctx context.Context, rest time.Duration) error {
	return r.records.Watched.Express(time.Now(), rest, func(hosts map[string]bool) error {
		id, err := r.records.Batches.Seal(context.WithoutCancel(ctx), r.list.List().Generation, hosts)
		if err != nil {
			return fmt.Errorf("sealing watched pages: %w", err)
		}
		if id != "" {
			r.log.InfoContext(ctx, "a change of a watched page is handed in", "batch", id, "hosts", len(hosts))
		}
		return nil
	})
}

package robotd

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sheaf/internal/settings"
	"sheaf/robotd/upload"
)

// uploadTarget takes batches and gives out receipts.
type uploadTarget interface {
	upload.Target
	upload.ReceiptSource
}

// answerTimeout is how long a target may take to answer once it has all that was sent.
const answerTimeout = 5 * time.Minute

// targets are the ways to the service that the settings name.
func (r *Robot) targets() ([]uploadTarget, error) {
	proxies, err := upload.Proxies(r.cfg.Upload.Proxy)
	if err != nil {
		return nil, settings.Wrong("upload.proxy", r.cfg.Upload.Proxy, err.Error())
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = func(req *http.Request) (*url.URL, error) { return proxies(req.URL) }
	transport.ResponseHeaderTimeout = answerTimeout
	web := &http.Client{Transport: transport}

	urls := r.cfg.Upload.Targets
	if len(urls) == 0 {
		if urls, err = r.classicTargets(); err != nil {
			return nil, err
		}
	}
	moved := func(at int64, first bool) { r.uploader.Moved(at, first) } // there is one before anything is sent
	var ways []uploadTarget
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			return nil, settings.Wrong("upload.targets", s, err.Error())
		}
		if !strings.HasPrefix(u.Scheme, "ftp") {
			ways = append(ways, &upload.Service{
				Base: strings.TrimSuffix(s, "/"), Robot: r.id.Robot, Secret: r.id.Secret, Key: r.id.ServerKey, Client: web, Moved: moved,
			})
			continue
		}
		f := &upload.FTP{Addr: u.Host, Robot: r.id.Robot, Secret: r.id.Secret, Key: r.id.ServerKey, Dir: u.Path, Moved: moved}
		if u.Port() == "" {
			f.Addr = net.JoinHostPort(u.Hostname(), "21")
		}
		if f.Proxy, err = proxies(u); err != nil {
			return nil, settings.Wrong("upload.proxy", r.cfg.Upload.Proxy, err.Error())
		}
		if u.Scheme == "ftps" {
			f.TLS = &tls.Config{}
		}
		ways = append(ways, f)
	}
	return ways, nil
}

// classicTargets are those of upload.by. Where that is FTP, HTTP still gives the receipts
// where it can, and takes the batches while FTP is away.
func (r *Robot) classicTargets() ([]string, error) {
	web := r.cfg.Manager
	if r.cfg.Upload.URL != "" {
		web = []string{r.cfg.Upload.URL}
	}
	if r.cfg.Upload.By != "ftp" {
		return web, nil
	}
	addr := r.cfg.Upload.FTP
	if addr == "" {
		addr = r.id.FTP
	}
	if addr == "" {
		return nil, errors.New(`setting upload.by: ftp: the service named no FTP server; set upload.ftp to host:port`)
	}
	return append([]string{"ftp://" + addr}, web...), nil
}

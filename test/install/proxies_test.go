package install

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/peer"
	"sheaf/internal/testkit"
)

// Behind each proxy that we ship settings for, a client cannot claim another address: a real nginx
// with the header lines of those settings tells the service the address that the client has.
func TestProxiesTellTheAddress(t *testing.T) {
	nginx := testkit.Tool(t, "nginx")
	proxies, err := peer.ParseProxies([]string{"127.0.0.1"})
	testkit.Must(t, err)
	service := httptest.NewServer(proxies.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, peer.Addr(r.RemoteAddr))
	})))
	t.Cleanup(service.Close)
	for _, shipped := range []string{"compose/nginx.conf", "kubernetes/proxy.yaml"} {
		t.Run(shipped, func(t *testing.T) {
			settings, err := os.ReadFile(filepath.Join(testkit.Root(t), "deploy", shipped))
			testkit.Must(t, err)
			headers := regexp.MustCompile(`(?m)^ *proxy_set_header .*;$`).FindAllString(string(settings), -1)
			dir, at := t.TempDir(), testkit.Addresses(t, 1)[0]
			conf := filepath.Join(dir, "nginx.conf")
			testkit.Must(t, os.WriteFile(conf, fmt.Appendf(nil, `
				daemon off; master_process off; pid %[1]s/pid; error_log stderr;
				events {}
				http {
					access_log off;
					client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
					uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
					server {
						listen %[2]s;
						proxy_http_version 1.1;
						%[3]s
						location / { proxy_pass %[4]s; proxy_bind 127.0.0.1; }
					}
				}`, dir, at, strings.Join(headers, "\n"), service.URL), 0o600))
			p := testkit.Start(t, "", exec.Command(nginx, "-p", dir, "-c", conf))
			client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
			defer client.CloseIdleConnections()
			p.Ready(t, func() error {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+"/", nil)
				testkit.Must(t, err)
				r.Header.Set("X-Forwarded-For", "198.51.100.1")
				r.Header.Set("Forwarded", "for=198.51.100.1")
				resp, err := client.Do(r)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				if seen, err := io.ReadAll(resp.Body); err != nil || string(seen) != "127.0.0.2" {
					t.Errorf("the service takes the client's address for %q (%v)", seen, err)
				}
				return nil
			})
		})
	}
}

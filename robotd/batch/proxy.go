package batch

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// ProxyFunc returns the proxy for a URL, or nil for none.
type ProxyFunc func(*url.URL) (*url.URL, error)

// Proxies returns the proxies of a setting: the URL of one proxy for everything, or "direct" for
// none. If the setting is empty, it uses the environment: HTTP_PROXY, HTTPS_PROXY or FTP_PROXY by
// the URL's scheme, and ALL_PROXY if that is not set, in upper or lower case. Hosts in NO_PROXY and
// this machine need no proxy. A proxy's URL is http://, https:// (CONNECT) or socks5:// and may
// have a name and a password.
func Proxies(setting string) (ProxyFunc, error) {
	switch setting {
	case "direct":
		return func(*url.URL) (*url.URL, error) { return nil, nil }, nil
	case "":
		return fromEnvironment(), nil
	}
	u, err := url.Parse(setting)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return func(*url.URL) (*url.URL, error) { return u, nil }, nil
	}
	return nil, fmt.Errorf("proxy %s is not http, https or socks5", u.Redacted())
}

func fromEnvironment() ProxyFunc {
	env := func(name string) string { return cmp.Or(os.Getenv(name), os.Getenv(strings.ToLower(name))) }
	all := env("ALL_PROXY")
	config := httpproxy.FromEnvironment()
	config.HTTPProxy, config.HTTPSProxy = cmp.Or(config.HTTPProxy, all), cmp.Or(config.HTTPSProxy, all)
	web := config.ProxyFunc()
	config.HTTPSProxy = cmp.Or(env("FTP_PROXY"), all)
	ftp := config.ProxyFunc()
	return func(u *url.URL) (*url.URL, error) {
		if !strings.HasPrefix(u.Scheme, "ftp") {
			return web(u)
		}
		like := *u
		like.Scheme = "https" // the library only knows http and https
		return ftp(&like)
	}
}

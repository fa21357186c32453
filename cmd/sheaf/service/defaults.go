package service

import (
	"time"

	"github.com/spf13/viper"

	"sheaf/archive/catalog"
	"sheaf/ingest/foreign"
	"sheaf/serve/watch"
)

// defaults are the settings where nothing is said.
func defaults(v *viper.Viper) {
	v.SetDefault("data", "sheaf-data")
	v.SetDefault("roles", allRoles())
	v.SetDefault("zone", "Asia/Tokyo")
	v.SetDefault("database.url", "")
	v.SetDefault("database.wait", 5*time.Minute)
	v.SetDefault("database.fresh", false)
	v.SetDefault("store.kind", storeFS)
	for _, key := range []string{"endpoint", "bucket", "prefix", "ca", "access_key", "secret_key", "secret_key_file"} {
		v.SetDefault("store."+key, "")
	}
	v.SetDefault("store.region", "us-east-1")
	v.SetDefault("store.reads", 64)
	v.SetDefault("store.writes", 16)
	v.SetDefault("store.attempts", 5)
	v.SetDefault("lease.kind", leaseDatabase)
	v.SetDefault("lease.ttl", 10*time.Second)
	v.SetDefault("lease.etcd.endpoints", []string{})
	v.SetDefault("lease.etcd.prefix", "sheaf")
	for _, key := range []string{"ca", "cert", "key", "username", "password"} {
		v.SetDefault("lease.etcd."+key, "")
	}
	v.SetDefault("http.listen", "127.0.0.1:8080")
	v.SetDefault("http.cert", "")
	v.SetDefault("http.connections", 10000)
	v.SetDefault("http.per_address", 200)
	v.SetDefault("http.key", "")
	v.SetDefault("http.public", "")
	v.SetDefault("http.proxies", []string{})
	v.SetDefault("download.listen", "127.0.0.1:2121")
	v.SetDefault("drop.listen", "127.0.0.1:2122")
	for _, server := range []string{"download", "drop"} {
		v.SetDefault(server+".public", "")
		v.SetDefault(server+".ports", []int{0, 0})
		v.SetDefault(server+".cert", "")
		v.SetDefault(server+".key", "")
		v.SetDefault(server+".proxies", []string{})
	}
	v.SetDefault("download.greeting", "")
	v.SetDefault("download.require_tls", false)
	v.SetDefault("download.active", true)
	v.SetDefault("download.idle", 5*time.Minute)
	v.SetDefault("download.data_timeout", time.Minute)
	v.SetDefault("download.connections", 1000)
	v.SetDefault("download.per_address", 50)
	v.SetDefault("download.per_account", 20)
	v.SetDefault("drop.hosts", "")
	v.SetDefault("watch.limit", 1000)
	v.SetDefault("watch.confirmed", false)
	v.SetDefault("watch.private_webhooks", false)
	v.SetDefault("watch.mail.server", "")
	v.SetDefault("watch.mail.from", "")
	v.SetDefault("watch.mail.tls", string(watch.StartTLS))
	v.SetDefault("watch.mail.user", "")
	v.SetDefault("watch.mail.password_file", "")
	v.SetDefault("watch.mail.roots", "")
	v.SetDefault("drop.quiet", 10*time.Minute)
	v.SetDefault("drop.cut_off", 24*time.Hour)
	v.SetDefault("uploads.least", 10)
	v.SetDefault("uploads.full", 85)
	v.SetDefault("uploads.drained", 75)
	v.SetDefault("import.max_bytes", foreign.DefaultBytes)
	v.SetDefault("import.max_entries", foreign.DefaultEntries)
	v.SetDefault("publish.window", "12:00-13:00")
	v.SetDefault("packs.below", "0")
	v.SetDefault("packs.size", "256MiB")
	v.SetDefault("collect.every", 6*time.Hour)
	v.SetDefault("collect.delay", catalog.MinDelay)
	v.SetDefault("collect.keep", time.Duration(0))
	v.SetDefault("hosts.suffixes", []string{"jp"})
	v.SetDefault("hosts.refuse", []string{})
	v.SetDefault("hosts.per_domain", 1000)
	v.SetDefault("balance.at", "01:00")
	v.SetDefault("balance.during", true)
	v.SetDefault("balance.lease", 6*time.Hour)
	v.SetDefault("balance.probes", 4)
	v.SetDefault("balance.window", 6*time.Hour)
	v.SetDefault("balance.split", true)
	v.SetDefault("replay.dir", "")
	v.SetDefault("replay.origin", "")
	v.SetDefault("access.anonymous", []string{})
	v.SetDefault("access.offline", 12*time.Hour)
	v.SetDefault("access.grace", 10*time.Minute)
	for _, key := range []string{"rate", "anonymous_rate", "address_rate", "contact"} {
		v.SetDefault("access."+key, "")
	}
	v.SetDefault("poll", 30*time.Second)
	v.SetDefault("stop", 20*time.Second)
}

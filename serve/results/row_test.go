package results

import "testing"

// The columns of a host are those of Common Crawl's index, for every kind of host.
func TestColumnsOfAHost(t *testing.T) {
	for host, want := range map[string]hostColumns{
		"www.waseda.ac.jp": {
			Name: "www.waseda.ac.jp", TLD: "jp", SecondLast: "ac", ThirdLast: "waseda", FourthLast: "www", Reversed: "jp.ac.waseda.www",
			RegistrySuffix: "ac.jp", RegisteredDomain: "waseda.ac.jp", PrivateSuffix: "ac.jp", PrivateDomain: "waseda.ac.jp",
		},
		"a.user.github.io:8080": {
			Name: "a.user.github.io", TLD: "io", SecondLast: "github", ThirdLast: "user", FourthLast: "a", Reversed: "io.github.user.a", Port: 8080,
			RegistrySuffix: "io", RegisteredDomain: "github.io", PrivateSuffix: "github.io", PrivateDomain: "user.github.io",
		},
		"ac.jp":              {Name: "ac.jp", TLD: "jp", SecondLast: "ac", Reversed: "jp.ac", RegistrySuffix: "ac.jp", PrivateSuffix: "ac.jp"},
		"localhost":          {Name: "localhost", TLD: "localhost", Reversed: "localhost", RegistrySuffix: "localhost", PrivateSuffix: "localhost"},
		"192.0.2.7:81":       {Name: "192.0.2.7", Port: 81},
		"[2001:db8::1]":      {Name: "2001:db8::1"},
		"[2001:db8::1]:8080": {Name: "2001:db8::1", Port: 8080},
	} {
		if got := columnsOf(host); got != want {
			t.Errorf("%s: %+v\nwant %+v", host, got, want)
		}
	}
}

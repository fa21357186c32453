// Command botauth verifies signed requests with github.com/remitly-oss/httpsig-go, as a site would.
// It is a module of its own, since nothing else needs that library.
//
// It reads what test/whole notes of requests and of the directory of keys, as JSON on standard
// input, and ends with an error at the first request that does not verify.
package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"log"
	"net/http"
	"net/url"
	"os"

	"github.com/remitly-oss/httpsig-go"
	"github.com/remitly-oss/httpsig-go/keyman"
)

func main() {
	var seen struct {
		Requests []struct {
			URL    string
			Header map[string]string
		}
		Directory struct {
			Keys []struct{ Kid, X string }
		}
	}
	if err := json.NewDecoder(os.Stdin).Decode(&seen); err != nil {
		log.Fatal(err)
	}
	keys := map[string]httpsig.KeySpec{}
	for _, k := range seen.Directory.Keys {
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil {
			log.Fatal(err)
		}
		keys[k.Kid] = httpsig.KeySpec{KeyID: k.Kid, Algo: httpsig.Algo_ED25519, PubKey: ed25519.PublicKey(x)}
	}
	profile := httpsig.VerifyProfile{
		SignatureLabel: "sheaf", AllowedAlgorithms: []httpsig.Algorithm{httpsig.Algo_ED25519},
		RequiredFields:   httpsig.Fields("@authority", "signature-agent"),
		RequiredMetadata: []httpsig.Metadata{httpsig.MetaCreated, httpsig.MetaExpires, httpsig.MetaKeyID, httpsig.MetaTag, httpsig.MetaNonce},
	}
	for _, r := range seen.Requests {
		u, err := url.Parse(r.URL)
		if err != nil {
			log.Fatal(err)
		}
		h := http.Header{}
		for name, value := range r.Header {
			h.Set(name, value)
		}
		if _, err := httpsig.Verify(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: h}, keyman.NewKeyFetchInMemory(keys), profile); err != nil {
			log.Fatalf("%s: %v", r.URL, err)
		}
	}
}

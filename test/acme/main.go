// Command acme is a certificate authority for tests: Let's Encrypt's pebble, on loopback. It is a
// module of its own for its many dependencies.
//
//	acme ADDRESS DNS WEB CERT KEY ROOT
//
// It listens at ADDRESS, with the certificate in the files CERT and KEY; its directory is at /dir.
// All names have the IP address of the address WEB, by its own DNS server at the address DNS. It
// looks for answers by tls-alpn-01 at WEB. Its certificates are valid for a day. It writes the root
// that signs them to the file ROOT before it listens.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

func main() {
	if len(os.Args) != 7 {
		log.Fatal("usage: acme ADDRESS DNS WEB CERT KEY ROOT")
	}
	address, resolver, cert, key, root := os.Args[1], os.Args[2], os.Args[4], os.Args[5], os.Args[6]
	host, text, err := net.SplitHostPort(os.Args[3])
	must(err)
	port, err := strconv.Atoi(text)
	must(err)
	must(os.Setenv("PEBBLE_VA_NOSLEEP", "1"))
	must(os.Setenv("PEBBLE_AUTHZREUSE", "0"))
	must(os.Setenv("PEBBLE_WFE_NONCEREJECT", "0")) // each costs a client a second

	logger := log.New(os.Stdout, "", log.LstdFlags)
	names, err := challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{resolver}, Log: logger})
	must(err)
	names.SetDefaultDNSIPv4(host)
	names.SetDefaultDNSIPv6("")
	go names.Run()

	store := db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {Description: "for tests", ValidityPeriod: 24 * 60 * 60}}
	authority := ca.New(logger, store, "", "ecdsa", 0, 1, profiles)
	must(os.WriteFile(root, authority.GetRootCert(0).PEM(), 0o600))
	validation := va.New(logger, 0, port, true, resolver, store)
	front := wfe.New(logger, store, validation, authority, []string{"authority.example.jp"}, true, false, 1, 1)
	log.Fatal(http.ListenAndServeTLS(address, cert, key, front.Handler()))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Command oidc is an OpenID provider for tests: the example of github.com/zitadel/oidc, a certified
// implementation, on loopback. It is a module of its own for its many dependencies.
//
//	oidc ADDRESS REDIRECT USERS
//
// The client "web" has the secret "secret"; USERS is a JSON file of storage.User by ID. It is read
// at each log-in.
package main

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: oidc ADDRESS REDIRECT USERS")
	}
	address := os.Args[1]
	storage.RegisterClients(storage.WebClient("web", "secret", os.Args[2]))
	users := file(os.Args[3])
	users.read()
	router := exampleop.SetupServer(fmt.Sprintf("http://%s/", address), storage.NewStorage(users), slog.New(slog.NewTextHandler(os.Stderr, nil)), false)
	log.Fatal(http.ListenAndServe(address, router))
}

// file is the name of a file of users.
type file string

func (f file) read() storage.UserStore {
	users, err := storage.StoreFromFile(string(f))
	if err != nil {
		log.Fatal(err)
	}
	return users
}

func (f file) GetUserByID(id string) *storage.User         { return f.read().GetUserByID(id) }
func (f file) GetUserByUsername(name string) *storage.User { return f.read().GetUserByUsername(name) }
func (f file) ExampleClientID() string                     { return f.read().ExampleClientID() }

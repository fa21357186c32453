package queries

import (
	"net/http"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/httpd/reply"
)

// defaultLimit and maxLimit bound the hosts or events of one answer.
const defaultLimit, maxLimit = 1000, 10000

func (q *Queries) hosts(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	values := r.URL.Query()
	limit, err := reply.Number(values, "limit", defaultLimit, 1, maxLimit)
	if err != nil {
		return err
	}
	hosts, next, err := q.Library.Tree.Hosts(r.Context(), a, values.Get("prefix"), values.Get("after"), int(limit))
	if err != nil {
		return err
	}
	list := api.HostList{Hosts: make([]api.HostLine, 0, len(hosts)), Next: next}
	for _, h := range hosts {
		list.Hosts = append(list.Hosts, api.HostLine{
			Host: h.Host, Path: api.PathTree + naming.HostPath(h.Host) + "/", Editions: h.Editions, Latest: h.Latest,
			Records: h.Records, Bytes: h.Bytes, First: h.First.UTC(), Last: h.Last.UTC(), Published: h.Published.UTC(),
		})
	}
	if next != "" {
		values.Set("after", next)
		reply.Link(w, r, values, "next")
	}
	return sendJSON(w, r, list)
}

func (q *Queries) editions(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
	editions, err := q.Library.Tree.Editions(r.Context())
	if err != nil {
		return err
	}
	list := api.EditionList{Editions: make([]api.Edition, 0, len(editions))}
	for _, e := range editions {
		list.Editions = append(list.Editions, api.Edition(e))
	}
	return problem.JSON(w, http.StatusOK, list)
}

func (q *Queries) collections(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	list, err := q.Library.Tree.Collections(r.Context(), a)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, catalog.CollectionList{Collections: list})
}

func (q *Queries) version(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
	n, err := q.Library.Tree.Version(r.Context())
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, api.VersionDocument{Program: q.Program, Catalog: n})
}

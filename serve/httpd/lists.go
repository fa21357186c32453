package httpd

import (
	"context"
	"net/http"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
)

func (q *Queries) hosts(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	in, err := listHosts.Read(w, r)
	if err != nil {
		return err
	}
	hosts, next, err := q.Library.Tree.Hosts(r.Context(), a, in.Prefix, in.After, in.Limit)
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
		route.Link(r.Context(), "next", map[string]string{"after": next})
	}
	return q.sendJSON(w, r, a, list)
}

func (q *Queries) editions(ctx context.Context, _ route.None) (list api.EditionList, err error) {
	editions, err := q.Library.Tree.Editions(ctx)
	list.Editions = make([]api.Edition, 0, len(editions))
	for _, e := range editions {
		list.Editions = append(list.Editions, api.Edition(e))
	}
	return list, err
}

func (q *Queries) collections(ctx context.Context, _ route.None) (catalog.CollectionList, error) {
	list, err := q.Library.Tree.Collections(ctx, guard.Account(ctx))
	return catalog.CollectionList{Collections: list}, err
}

func (q *Queries) version(ctx context.Context, _ route.None) (api.VersionDocument, error) {
	n, err := q.Library.Tree.Version(ctx)
	return api.VersionDocument{Program: q.Program, Catalog: n}, err
}

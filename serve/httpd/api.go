package httpd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/problem"
	"sheaf/serve/account"
)

const defaultLimit, maxLimit = 1000, 10000

// HostList is the answer of GET /v1/hosts. Next, where there is more, is the
// query's next "after"; the Link header has the whole URL.
type HostList struct {
	Hosts []HostLine `json:"hosts"`
	Next  string     `json:"next,omitempty"`
}

// HostLine sums up what is published of a host.
type HostLine struct {
	Host      string    `json:"host"`
	Path      string    `json:"path"` // of its directory
	Editions  int       `json:"editions"`
	Latest    string    `json:"latest"` // edition
	Records   int64     `json:"records"`
	Bytes     int64     `json:"bytes"` // as stored
	First     time.Time `json:"first"` // crawl span
	Last      time.Time `json:"last"`
	Published time.Time `json:"published"` // of the latest edition
}

// EditionList is the answer of GET /v1/editions, oldest first.
type EditionList struct {
	Editions []catalog.Edition `json:"editions"`
}

// VersionDocument is the answer of GET /v1/version.
type VersionDocument struct {
	Program string `json:"program"`
	Catalog int64  `json:"catalog"` // number of the newest catalog version
}

func (s *server) hosts(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	query := r.URL.Query()
	limit, err := number(query, "limit", defaultLimit, 1, maxLimit)
	if err != nil {
		return err
	}
	hosts, next, err := s.Library.Hosts(r.Context(), a, query.Get("prefix"), query.Get("after"), int(limit))
	if err != nil {
		return err
	}
	list := HostList{Hosts: make([]HostLine, 0, len(hosts)), Next: next}
	for _, h := range hosts {
		list.Hosts = append(list.Hosts, HostLine{
			Host: h.Host, Path: "/pub" + treePath(h.Host, "") + "/", Editions: h.Editions, Latest: h.Latest,
			Records: h.Records, Bytes: h.Bytes, First: h.First.UTC(), Last: h.Last.UTC(), Published: h.Published.UTC(),
		})
	}
	if next != "" {
		query.Set("after", next)
		more := url.URL{Path: r.URL.Path, RawQuery: query.Encode()}
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, more.String()))
	}
	return answerJSON(w, http.StatusOK, list)
}

func (s *server) editions(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
	editions, err := s.Library.Editions(r.Context())
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, EditionList{Editions: append([]catalog.Edition{}, editions...)})
}

func (s *server) version(w http.ResponseWriter, r *http.Request, _ *account.Account) error {
	n, err := s.Library.Version(r.Context())
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, VersionDocument{Program: s.Version, Catalog: n})
}

// number reads a number from a query.
func number(query url.Values, name string, fallback, least, most int64) (int64, error) {
	text := query.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, problem.New(http.StatusBadRequest, name, fmt.Sprintf("%s %.20q: want a number from %d to %d", name, text, least, most))
	}
	return n, nil
}

// answerJSON encodes before it answers, so that an error can still be told.
func answerJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "private, no-cache")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
	return nil
}

package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
)

const (
	maxJSON = 1 << 20 // bytes of a request's JSON
	maxForm = 1 << 20 // bytes of a form's answer
)

// ReadJSON reads the JSON of a request's body, at most 1 MiB, into v. It refuses a field that v
// does not have: it may be a misspelt limit, and without the limit the request would do too much.
// The error is an *Error with the reason bad_body, too_large or media_type.
func ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	err := readJSON(w, r, v)
	if errors.Is(err, io.EOF) {
		return New(http.StatusBadRequest, "bad_body", "the request has no body; this path takes JSON")
	}
	return err
}

// ReadJSONIfAny is ReadJSON for a request that may have no body. v then stays as it is.
func ReadJSONIfAny(w http.ResponseWriter, r *http.Request, v any) error {
	err := readJSON(w, r, v)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readJSON returns io.EOF for an empty body.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if given := r.Header.Get("Content-Type"); given != "" {
		kind, _, err := mime.ParseMediaType(given)
		if err != nil || kind != "application/json" && kind != "application/octet-stream" { // this type says nothing about the body
			return New(http.StatusUnsupportedMediaType, "media_type", fmt.Sprintf("a body of %.100q; send JSON, as application/json", given))
		}
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJSON))
	body.DisallowUnknownFields()
	err := body.Decode(v)
	if err == io.EOF {
		return err
	}
	if err == nil {
		if _, behind := body.Token(); behind != io.EOF {
			err = errors.New("something stands behind its end")
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return tooLong(tooLarge)
	}
	return New(http.StatusBadRequest, "bad_body", "the request's body is not the JSON that this path takes: "+err.Error())
}

// ReadForm reads the answer to an HTML form, at most 1 MiB. The error is an *Error with the reason
// bad_form or too_large.
func ReadForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if err == nil {
		return r.PostForm, nil
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLong(tooLarge)
	}
	return nil, New(http.StatusBadRequest, "bad_form", err.Error())
}

func tooLong(err *http.MaxBytesError) error {
	return New(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the request's body has more than %d bytes; send it in parts", err.Limit))
}

// JSON answers with v. It encodes v before it begins the answer, so that the caller can still
// answer with an error. Unless the header says otherwise, caches must ask again before they use the
// answer.
func JSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "private, no-cache")
	}
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
	return nil
}

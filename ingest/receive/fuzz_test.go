package receive_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"

	"github.com/gorilla/mux"
)

// FuzzHTTP sends anything as the headers of an upload and as its body, and anything
// that the robot has signed as its manifest. The service never fails, keeps nothing
// but uploads of the robot's own batches, and counts no byte that did not come.
func FuzzHTTP(f *testing.F) {
	h := newBare(f, time.Hour)
	h.openOnly()
	router := mux.NewRouter()
	testkit.Must(f, h.rec.Register(router))
	b := batchtest.Make(f, h.robots, 1, batchtest.Site("a.example.jp", 2))
	name := "batch " + base64Of(b.ID)
	f.Add(name, strconv.Itoa(len(b.Data)), "0", b.Data, marshal(f, b.Manifest))
	f.Add(name+",filename YQ==", "10", "5", []byte("12345"), []byte("{}"))
	f.Add("batch "+base64Of("../../waseda-20261120T150405Z-1"), "9223372036854775807", "-1", []byte("x"), []byte("null"))
	f.Add("batch,batch "+base64Of("other-20261120T150405Z-1"), "1e3", "9223372036854775807", []byte(nil), []byte(`{"format":1}`))
	f.Add("BATCH "+base64Of(b.ID), "-5", "0x10", []byte("x"), []byte("[]"))
	f.Fuzz(func(t *testing.T, metadata, length, offset string, body, manifest []byte) {
		do := func(method, path string, body []byte, header ...string) *httptest.ResponseRecorder {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
			req.SetBasicAuth(batchtest.Robot, batchtest.Secret)
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			router.ServeHTTP(w, req)
			if w.Code >= 500 && w.Code != 501 && w.Code != 503 && w.Code != 507 {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
			return w
		}
		do("POST", wire.PathUploads, nil, tus("Upload-Length", length, "Upload-Metadata", metadata)...)
		at := wire.PathUploads + string(b.ID)
		before := do("HEAD", at, nil, tus()...).Header().Get("Upload-Offset")
		w := do("PATCH", at, body, tus("Content-Type", "application/offset+octet-stream", "Upload-Offset", offset)...)
		kept, err := strconv.Atoi(do("HEAD", at, nil, tus()...).Header().Get("Upload-Offset"))
		from, _ := strconv.Atoi(before)
		if err == nil && (kept < from || kept > from+len(body) || w.Code >= 400 && kept != from) {
			t.Errorf("%d bytes are kept; there were %d, and %d came at %q: %d", kept, from, len(body), offset, w.Code)
		}
		signed, err := envelope(h.robots, manifest)
		testkit.Must(t, err)
		do("PUT", strings.Replace(wire.PathManifest, "{batch}", string(b.ID), 1), signed)
		do("PUT", strings.Replace(wire.PathManifest, "{batch}", string(b.ID), 1), manifest)
		left, err := os.ReadDir(filepath.Join(h.opt.Dir, "receive"))
		testkit.Must(t, err)
		for _, e := range left {
			if wire.BatchID(strings.TrimSuffix(e.Name(), ".info")).Robot() != batchtest.Robot {
				t.Errorf("%q is kept", e.Name())
			}
		}
	})
}

func marshal(t testing.TB, v any) []byte {
	data, err := json.Marshal(v)
	testkit.Must(t, err)
	return data
}

// envelope signs any bytes as if they were a manifest.
func envelope(r *batchtest.Robots, body []byte) ([]byte, error) {
	return json.Marshal(map[string]string{
		"signed": string(body), "ed25519": base64.StdEncoding.EncodeToString(ed25519.Sign(r.Key, body)),
	})
}

package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

// The store that a service stands on is still one of local files, unless they are elsewhere.
func TestStoreIsLocal(t *testing.T) {
	cfg, err := Load("", map[string]any{"data": t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := OpenStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	if err := objects.Put(t.Context(), "k", strings.NewReader("data"), 4); err != nil {
		t.Fatal(err)
	}
	local, ok := store.AsLocal(objects)
	if !ok {
		t.Fatal("no local files")
	}
	f, err := local.OpenFile("k")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if u := objects.Usages(); u.Put.Calls != 1 || u.Put.Bytes != 4 {
		t.Errorf("metered %+v", u)
	}
}

// A service of objects that cannot be used stops the start, with the setting that is wrong.
func TestUnusableS3NamesSetting(t *testing.T) {
	testkit.Slow(t)
	o := storetest.StartVersity(t).Options(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(o.SecretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := map[string]any{"data": t.TempDir(), "store.kind": "s3", "store.endpoint": o.Endpoint, "store.bucket": o.Bucket,
		"store.access_key": o.AccessKey, "store.secret_key_file": secret}
	for _, c := range []struct{ key, value, blamed string }{
		{"", "", ""},
		{"store.endpoint", "http://127.0.0.1:1", "store.endpoint"},
		{"store.bucket", "missing", "store.bucket"},
		{"store.access_key", "nobody", "store.access_key"},
		{"store.secret_key_file", secret + "-missing", "store.secret_key_file"},
		{"store.ca", secret, "store.ca"},
	} {
		settings := map[string]any{c.key: c.value}
		for key, value := range good {
			if key != c.key {
				settings[key] = value
			}
		}
		delete(settings, "")
		cfg, err := Load("", settings)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := OpenStore(t.Context(), cfg)
		if err == nil {
			objects.Close()
		}
		if c.blamed == "" {
			if err != nil {
				t.Errorf("good settings: %v", err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "settings: "+c.blamed) || !strings.Contains(err.Error(), c.value) {
			t.Errorf("%s %s: %v", c.key, c.value, err)
		}
	}
}

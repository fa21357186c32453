package store_test

import (
	"errors"
	"strings"
	"testing"

	"sheaf/archive/store"
)

// A Confined store reads everything, but changes only objects under its prefixes.
func TestConfined(t *testing.T) {
	all := openFS(t, t.TempDir())
	put := func(s store.Store, key string) error { return s.Put(t.Context(), key, strings.NewReader("x"), 1) }
	if err := put(all, "segments/a"); err != nil {
		t.Fatal(err)
	}
	reader, writer := store.NewConfined(all), store.NewConfined(all, "releases/")
	if err := put(writer, "releases/a"); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"reader puts":              put(reader, "releases/b"),
		"reader deletes":           reader.Delete(t.Context(), "releases/a"),
		"writer puts elsewhere":    put(writer, "segments/b"),
		"writer deletes elsewhere": writer.Delete(t.Context(), "segments/a"),
		"writer puts beside":       put(writer, "releases-too"),
	} {
		if !errors.Is(err, store.ErrConfined) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var keys []string
	for info, err := range reader.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if strings.Join(keys, " ") != "releases/a segments/a" {
		t.Errorf("the store holds %v", keys)
	}
	if err := writer.Delete(t.Context(), "releases/a"); err != nil {
		t.Error(err)
	}
	if _, ok := store.AsLocal(reader); !ok {
		t.Error("its files are no longer local")
	}
}

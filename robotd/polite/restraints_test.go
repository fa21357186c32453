package polite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/testkit"
)

func TestRestraints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "restraints")
	synctest.Test(t, func(t *testing.T) {
		open := func() *Restraints {
			r, err := OpenRestraints(path)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		set := func(r *Restraints, name string, until, every time.Duration) {
			if err := r.Set(name, Restraint{time.Now().Add(until), every}); err != nil {
				t.Fatal(err)
			}
		}
		left := func(r *Restraints, name string) time.Duration { return time.Until(r.Get(name).Until) }
		r := open()
		set(r, "a.test", time.Hour, 0)
		set(r, "b.test", time.Minute, 10*time.Minute)
		set(r, "@192.0.2.1", 2*time.Minute, time.Minute)
		set(r, "c.test", 1000*time.Hour, 0)
		testkit.Must(t, files.Append(r.file, []byte("0000"))) // a partial line, as after SIGKILL
		time.Sleep(5 * time.Minute)
		r = open()
		for name, want := range map[string]time.Duration{
			"a.test": 55 * time.Minute, "b.test": 10 * time.Minute, "@192.0.2.1": time.Minute, "c.test": longest, "d.test": time.Until(time.Time{}),
		} {
			if got := left(r, name); got != want {
				t.Errorf("%s must wait %v, want %v", name, got, want)
			}
		}
		for i := range 3 * slack {
			set(r, fmt.Sprintf("%d.test", i%10), time.Minute+time.Duration(i), 0)
		}
		if st, err := os.Stat(path); err != nil || st.Size() > 60*2*slack {
			t.Errorf("the file takes %d bytes, %v", st.Size(), err)
		}
		time.Sleep(3 * longest)
		if r = open(); len(r.held) > 0 {
			t.Errorf("%v hold still", r.held)
		}
	})
}

func TestRules(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r, err := OpenRules(dir)
		if err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(longest)
		if err := r.Save("http", "a.test", []byte("User-agent: *\n"), until); err != nil {
			t.Fatal(err)
		}
		if err := r.Save("http", "b.test", nil, until); err != nil {
			t.Fatal(err)
		}
		if text, at, ok := r.Load("http", "a.test"); !ok || string(text) != "User-agent: *\n" || !at.Equal(until) {
			t.Errorf("%q, %v, %t", text, at, ok)
		}
		if text, _, ok := r.Load("http", "b.test"); !ok || len(text) > 0 {
			t.Errorf("%q, %t", text, ok)
		}
		if _, _, ok := r.Load("https", "a.test"); ok {
			t.Error("the rules of another scheme were returned")
		}
		if err := os.Truncate(r.path("http", "b.test"), 15); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := r.Load("http", "b.test"); ok {
			t.Error("a partly written file was accepted")
		}
		time.Sleep(longest)
		if _, _, ok := r.Load("http", "a.test"); ok {
			t.Error("rules were returned after more than a day")
		}
	})
}

// A restraint that the disk does not take is written when it is set again, and spoils none after
// it.
func TestRestraintsOnFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "restraints")
	r, err := OpenRestraints(path)
	testkit.Must(t, err)
	all := map[string]Restraint{}
	for _, name := range []string{"a.test", "b.test"} {
		all[name] = Restraint{time.Now().Add(time.Hour), time.Minute}
	}
	lift := testkit.FilesUpTo(t, 10)
	if lift == nil {
		return
	}
	for name, s := range all {
		if err := r.Set(name, s); err == nil {
			t.Error("a full disk took a restraint")
		}
	}
	lift()
	for name, s := range all {
		testkit.Must(t, r.Set(name, s))
	}
	testkit.Must(t, r.Close())
	r, err = OpenRestraints(path)
	testkit.Must(t, err)
	defer r.Close()
	for name := range all {
		if r.Get(name).Every != time.Minute {
			t.Errorf("the restraint of %s is lost", name)
		}
	}
}

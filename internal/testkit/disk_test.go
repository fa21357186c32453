package testkit

import "testing"

// Tests' files lie where the environment says, otherwise in memory that has room for them.
func TestFilesInMemory(t *testing.T) {
	small := SmallDisk(t, "size=64k")
	if small == "" {
		return // run elsewhere
	}
	large := SmallDisk(t, "size=2g")
	for _, c := range []struct{ tmpdir, gotmpdir, memory, want string }{
		{"", "", large, large},
		{"", "", small, ""},
		{"", "", "/nowhere", ""},
		{"", small, large, small},
		{large, small, large, ""},
	} {
		t.Setenv("TMPDIR", c.tmpdir)
		t.Setenv("GOTMPDIR", c.gotmpdir)
		if got := forFiles(c.memory); got != c.want {
			t.Errorf("TMPDIR=%s GOTMPDIR=%s, memory %s: %q, want %q", c.tmpdir, c.gotmpdir, c.memory, got, c.want)
		}
	}
}

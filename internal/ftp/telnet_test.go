package ftp

import (
	"bytes"
	"testing"
)

func TestTelnet(t *testing.T) {
	in := []byte("a\xff\xfb\x01b\xff\xfa\x18\x00\xff\xff\xff\xf0c\xff\xffd\xff\xf4\xffABOR\xff\xf2e")
	want := []byte("abc\xffdABORe")
	for cut := range len(in) {
		var state telnet
		got := append(bytes.Clone(state.strip(bytes.Clone(in[:cut]))), state.strip(bytes.Clone(in[cut:]))...)
		if !bytes.Equal(got, want) {
			t.Errorf("cut at %d: %q, want %q", cut, got, want)
		}
	}
}

package foreign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// dictionary returns a dictionary made of records.
func dictionary(t testing.TB) []byte {
	var contents [][]byte
	for _, r := range numbered(30) {
		contents = append(contents, []byte(r))
	}
	dict, err := zstd.BuildDict(zstd.BuildDictOptions{ID: 1 << 16, Contents: contents, History: []byte(numbered(9)[8]), Offsets: [3]int{1, 4, 8}})
	testkit.Must(t, err)
	return dict
}

// zst returns the parts as frames, each compressed with the dictionary, if there is one.
func zst(t testing.TB, dict []byte, parts ...string) string {
	var opt []zstd.EOption
	if dict != nil {
		opt = append(opt, zstd.WithEncoderDict(dict))
	}
	e, err := zstd.NewWriter(nil, opt...)
	testkit.Must(t, err)
	defer e.Close()
	var b []byte
	for _, p := range parts {
		b = e.EncodeAll([]byte(p), b)
	}
	return string(b)
}

// skippable returns a frame with the dictionary.
func skippable(content string) string {
	return dictionaryMagic + string(binary.LittleEndian.AppendUint32(nil, uint32(len(content)))) + content
}

// A .warc.zst gives what the same records give in gzip, with a dictionary or without.
func TestZstd(t *testing.T) {
	t.Parallel()
	dict := dictionary(t)
	records := append(crawl("1.1"), numbered(5)...)
	want, err := convert(t, gz(records...), nil)
	testkit.Must(t, err)
	const comment = "\x50\x2a\x4d\x18\x04\x00\x00\x00what" // another skippable frame
	for name, data := range map[string]string{
		"a frame a record":        zst(t, nil, records...),
		"one frame":               zst(t, nil, strings.Join(records, "")),
		"a dictionary":            skippable(string(dict)) + zst(t, dict, records...),
		"a compressed dictionary": skippable(zst(t, nil, string(dict))) + zst(t, dict, records...),
		"frames to be skipped":    zst(t, nil, records[:2]...) + comment + zst(t, nil, records[2:]...) + comment,
		"empty frames":            zst(t, nil, append([]string{records[0], ""}, records[1:]...)...),
		"large":                   zst(t, nil, records...) + zst(t, nil, rec("1.1", "request", "http://a.example.jp/", "", noise(3<<20))),
	} {
		got, err := convert(t, data, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Kind != WARC || !strings.HasPrefix(got.others, want.others) || got.kept() != want.kept() || got.Pages != want.Pages || got.Revisits != want.Revisits {
			t.Errorf("%s: %+v, want %+v", name, got.Result, want.Result)
		}
	}
	if got, err := convert(t, zst(t, nil, arcFile(true)...), nil); err != nil || got.Kind != ARC || got.Pages != 3 {
		t.Errorf("an ARC: %v, %v", got, err)
	}
}

// What is wrong with a .warc.zst is named, and a small file cannot take much memory.
func TestWrongZstd(t *testing.T) {
	t.Parallel()
	dict := dictionary(t)
	records := numbered(3)
	good := skippable(string(dict)) + zst(t, dict, records...)
	plain := zst(t, nil, records...)
	hugeWindow := zstdMagic + "\x00\xf8\x01\x00\x00" // 2 TiB
	for name, c := range map[string]struct {
		data   string
		reason wire.Reason
		says   string
	}{
		"cut":                        {good[:len(good)-5], wire.ReasonTruncated, "ends here"},
		"cut in the magic":           {plain + zstdMagic[:3], wire.ReasonTruncated, "ends here"},
		"cut in a frame's header":    {plain + plain[:5], wire.ReasonTruncated, "ends here"},
		"cut in the dictionary":      {good[:200], wire.ReasonTruncated, "ends here"},
		"cut before the dictionary":  {good[:6], wire.ReasonTruncated, "ends here"},
		"a flipped bit":              {plain[:len(plain)-40] + string(plain[len(plain)-40]^1) + plain[len(plain)-39:], wire.ReasonCorruptMember, ""},
		"a wrong sum":                {plain[:len(plain)-1] + string(plain[len(plain)-1]^1), wire.ReasonCorruptMember, "CRC"},
		"rubbish behind":             {plain + "rubbish", wire.ReasonCorruptMember, "magic"},
		"no dictionary":              {zst(t, dict, records...), wire.ReasonCorruptMember, "dictionary"},
		"a dictionary that is none":  {skippable("none") + plain, wire.ReasonCorruptMember, ""},
		"a dictionary cut in itself": {skippable(half(zst(t, nil, string(dict)))) + zst(t, dict, records...), wire.ReasonCorruptMember, "dictionary"},
		"a dictionary that is long":  {skippable(zst(t, nil, strings.Repeat("x", maxDictionary+1))) + plain, wire.ReasonCorruptMember, "dictionary of more"},
		"a dictionary of 4 GiB":      {dictionaryMagic + "\xff\xff\xff\xff" + plain, wire.ReasonCorruptMember, "dictionary of 4294967295"},
		"a window of 2 TiB":          {hugeWindow + plain, wire.ReasonCorruptMember, "window"},
	} {
		_, err := convert(t, c.data, nil)
		var fault *Error
		if !errors.As(err, &fault) || fault.Reason != c.reason || !strings.Contains(fault.Error(), c.says) {
			t.Errorf("%s: %v, want %s: …%s…", name, err, c.reason, c.says)
		}
	}
	bomb := zst(t, nil, rec("1.1", "resource", "http://a.example.jp/", "", strings.Repeat("x", 2<<20)))
	if _, err := convertWithin(t, context.Background(), bomb, Limits{Bytes: 1 << 20}, io.Discard); err == nil || !strings.Contains(err.Error(), "import.max_bytes") {
		t.Errorf("a frame that expands: %v", err)
	}
}

// FuzzZstd: whatever dictionary and frames a file has, it is read to its end or refused, with no
// more memory than the limits allow.
func FuzzZstd(f *testing.F) {
	dict := dictionary(f)
	f.Add([]byte(skippable(string(dict)) + zst(f, dict, numbered(2)...)))
	f.Add([]byte(skippable(zst(f, nil, string(dict))) + zst(f, dict, numbered(2)...)))
	f.Add([]byte(zst(f, nil, crawl("1.1")...)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !isZstd(data) {
			return
		}
		z, err := newZstd(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		defer z.Close()
		_, _ = io.CopyN(io.Discard, z, 1<<20)
	})
}

package replay

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"sheaf/internal/testkit"
)

// silence returns a WAV of that many seconds, stereo, of 44,100 samples a second.
func silence(seconds int) string {
	const rate = 44_100
	n := uint32(seconds * rate * 4)
	var b bytes.Buffer
	b.WriteString("RIFF")
	binary.Write(&b, binary.LittleEndian, 36+n)
	b.WriteString("WAVEfmt ")
	binary.Write(&b, binary.LittleEndian, []uint32{16, 2<<16 | 1, rate, rate * 4, 16<<16 | 4})
	b.WriteString("data")
	binary.Write(&b, binary.LittleEndian, n)
	b.Write(make([]byte, n))
	return b.String()
}

// A player of a stored sound seeks to a place near its end by a range request, without what lies
// before.
func TestSoundSeeks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	ctx := testkit.NewPage(t)
	const seconds = 300 // 53 MB: more than browsers read ahead
	base := site(t, ctx, "", record("/", "text/html", `<title>sound</title><audio id=a src=sound.wav preload=metadata controls></audio>`), record("/sound.wav", "audio/wav", silence(seconds)))
	var parts atomic.Int64
	chromedp.ListenTarget(ctx, func(ev any) {
		if r, ok := ev.(*network.EventResponseReceived); ok && strings.HasSuffix(r.Response.URL, "/sound.wav") && r.Response.Status == 206 {
			parts.Add(1)
		}
	})
	if err := chromedp.Run(ctx, network.Enable()); err != nil {
		t.Fatal(err)
	}
	look(t, ctx, base+"/web/20261121030000/http://"+host+"/", `document.getElementById("a").duration`, "300")
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.getElementById("a").currentTime = 290`, nil)); err != nil {
		t.Fatal(err)
	}
	testkit.Watch(t, ctx, `(a => !a.seeking && a.currentTime === 290 && a.readyState >= 2)(document.getElementById("a"))`, "true")
	if parts.Load() < 2 {
		t.Errorf("%d answers were ranges, want the beginning and the place", parts.Load())
	}
}

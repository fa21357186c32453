package archive

import (
	"io"

	"sheaf/archive/deflate"
	"sheaf/internal/wire"
)

// cellOverhead is an upper limit for what a record's headers decode to, in bytes. Records with more
// are refused if there is no room for them.
const cellOverhead = 256 << 10

// leastRoom is the number of further bytes of a body that must fit, or the body is cut.
const leastRoom = 64 << 10

// room returns how many bytes of a record's body surely fit into the segment by the rule of
// expansion, if n bytes of it have been stored.
func (w *Writer) room(n int64) int64 {
	return wire.ExpansionRoom(w.decoded+cellOverhead, w.size+n)
}

// keep puts as much of a body into the run and the sum as MaxBody and the rule of expansion allow,
// and reports whether that was not all.
func (w *Writer) keep(run deflate.Run, sum *fileSum, body io.Reader) (cut bool, err error) {
	out := io.MultiWriter(run, sum)
	most := w.opt.MaxBody
	fits := min(most, w.room(0))
	for fits > sum.n {
		if _, err := io.CopyBuffer(out, io.LimitReader(body, fits-sum.n), w.copying); err != nil {
			return false, err
		}
		if sum.n < fits {
			return false, nil
		}
		if fits == most {
			break
		}
		// What the body has deflated to so far may have made room for more of it.
		if err := run.Flush(); err != nil {
			return false, err
		}
		room := min(most, w.room(w.body.n))
		if room < most && room-fits < leastRoom {
			break
		}
		fits = room
	}
	more, _ := io.CopyN(io.Discard, body, 1)
	return more > 0, nil
}

package archive

import (
	"io"

	"sheaf/archive/deflate"
	"sheaf/internal/wire"
)

// cellOverhead is an upper limit for a record's decoded headers, in bytes. Records with longer
// headers are refused if there is no room for them.
const cellOverhead = 256 << 10

// leastRoom is the least room, in bytes, for the rest of a body. With less, the body is cut.
const leastRoom = 64 << 10

// room returns how many bytes of a record's body the rule of expansion surely allows in the
// segment, if n deflated bytes of the body are stored already.
func (w *Writer) room(n int64) int64 {
	return wire.ExpansionRoom(w.decoded+cellOverhead, w.size+n)
}

// keep writes a body to the run and the sum, as far as MaxBody and the rule of expansion allow. It
// reports whether it cut the body.
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
		// The rule may allow more of the body once the bytes so far are deflated.
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

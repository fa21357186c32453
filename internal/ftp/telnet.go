package ftp

// Command bytes of Telnet (RFC 854), which clients put around an urgent ABOR.
const (
	telnetSE   = 240
	telnetSB   = 250
	telnetWILL = 251
	telnetDONT = 254
	telnetIAC  = 255
)

// telnet removes Telnet commands from the bytes of a control connection. A command may be spread
// over several calls.
type telnet struct{ state telnetState }

type telnetState int8

const (
	inData       telnetState = iota
	afterIAC                 // the next byte is a command
	beforeOption             // the next byte is the option of WILL, WONT, DO or DONT
	inSub                    // between IAC SB and IAC SE
	inSubIAC                 // after an IAC between IAC SB and IAC SE
)

// strip removes the commands from b, in place.
func (t *telnet) strip(b []byte) []byte {
	out := b[:0]
	for _, x := range b {
		switch t.state {
		case inData:
			if x == telnetIAC {
				t.state = afterIAC
			} else {
				out = append(out, x)
			}
		case afterIAC:
			switch {
			case x == telnetSB:
				t.state = inSub
			case x >= telnetWILL && x <= telnetDONT:
				t.state = beforeOption
			case x >= telnetSE && x != telnetIAC:
				t.state = inData
			default:
				// IAC IAC stands for one byte 255. A byte that is not a command is text after a
				// Data Mark that was sent as urgent data.
				out = append(out, x)
				t.state = inData
			}
		case beforeOption:
			t.state = inData
		case inSub:
			if x == telnetIAC {
				t.state = inSubIAC
			}
		case inSubIAC:
			t.state = inSub
			if x == telnetSE {
				t.state = inData
			}
		}
	}
	return out
}

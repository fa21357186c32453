package control

import (
	"fmt"
	"strings"
	"time"

	"sheaf/robotd/config"
)

// mostShown is how many failed batches, and how many waiting batches, are shown one by one.
const mostShown = 3

// uploads adds what is being sent, what the other batches wait for, and why batches and messages
// have not arrived.
func (b *builder) uploads(s *Status) {
	now := b.screen.Now
	failing, waiting := 0, 0
	for i := range s.Spool {
		is := &s.Spool[i]
		switch {
		case is.To != "":
			text := fmt.Sprintf("%s: %s of %s", is.ID, Size(is.Sent), Size(is.Bytes))
			if is.Bytes > 0 {
				text += fmt.Sprintf(" (%d %%)", is.Sent*100/is.Bytes)
			}
			if is.Rate > 0 {
				left := time.Duration(float64(is.Bytes-is.Sent) / float64(is.Rate) * float64(time.Second))
				text += fmt.Sprintf(", %s/s, %s left", Size(is.Rate), span(left))
			}
			b.row("sending", "%s, to %s", text, is.To)
		case is.Error != "":
			if failing++; failing <= mostShown {
				b.row("delayed", "%s: %s; again %s", is.ID, told(is.Error), until(is.Next, now))
			}
		case waiting == mostShown || is.Next.IsZero():
		case is.State == "":
			waiting++
			b.row("waits", "%s: to be sent %s", is.ID, until(is.Next, now))
		default:
			waiting++
			b.row("waits", "%s: the service has it (%s) and publishes it; asked again %s", is.ID, is.State, until(is.Next, now))
		}
	}
	if failing > mostShown {
		b.row("", "and %d more", failing-mostShown)
	}
	b.failures(s.Targets, "target")
	b.failures(s.Managers, "manager")
}

// failures adds the targets or managers that do not work now.
func (b *builder) failures(ways []config.TargetState, label string) {
	now := b.screen.Now
	for _, t := range ways {
		if t.Failures == 0 {
			continue
		}
		text := fmt.Sprintf("%s failed %s, at %s: %s", t.Name, plural(int64(t.Failures), "time", "times"), clock(t.Failed, now), told(t.Error))
		if t.Again.After(now) {
			text += "; again " + until(t.Again, now)
		}
		b.row(label, "%s", text)
	}
}

// told puts an error into one line: joined errors have several.
func told(err string) string { return strings.ReplaceAll(err, "\n", "; ") }

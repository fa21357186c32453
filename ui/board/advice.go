package board

import (
	"cmp"
	"strings"

	"sheaf/internal/operators"
	"sheaf/internal/wire"
)

// advice tells what to do about a failure: a sentence of the runbook, and one button.
type advice struct {
	Failure
	Says   string // empty: the runbook has no sentence
	Button string // empty: there is no button
	To     string // the page to which the button leads, or to which its form is sent
	Act    string // value of the form; empty: the button is a link, or the form needs none
	Form   bool
}

// says returns the runbook's sentence for a kind of failure. A test checks that docs/runbook.md has
// each sentence.
func (p page) says(kind string) string {
	var other string
	if strings.HasPrefix(kind, KindRobot) {
		other = p.T("Tell the people at the site; a mail address as the robot's contact is written to by itself.")
	}
	return cmp.Or(map[string]string{
		KindCheck:                              p.T("Bring back what does not answer; the service goes on by itself."),
		KindDisk:                               p.T("Decide about old batches in the quarantine; each holds its file. Run sheaf gc."),
		KindBuffer:                             p.T("sheaf batch ls --state pre-split, then sheaf batch show ID: it has the last error."),
		KindQuarantine:                         p.T("The alert ends when every batch is released or discarded."),
		KindPublication:                        p.T("sheaf batch publish publishes now, and else the next window does."),
		KindRollout:                            p.T("Publish a better release, which ends the alert, or let it go on: sheaf release rollout COUNTER --percent N."),
		KindDamage:                             p.T("Put the disk right first. Then sheaf fsck --repair ADDRESS with any copy that you have, a backup of the object store too."),
		KindCopy:                               p.T("Nothing is lost meanwhile; the copy goes on where it was."),
		KindWatches:                            p.T("If all mails fail, look at watch.mail: server, credentials, certificate. A webhook that fails alone is its owner's to put right."),
		KindRemovals:                           p.T("Grant or refuse it there. A refusal needs a reason, which the asker is told."),
		KindRobot + string(wire.TroubleSilent): p.T("Ask the people at the site: robotd status and robotd check there say what is wrong."),
	}[kind], other)
}

// ReasonSays returns the runbook's sentences for a reason of the quarantine. A test looks each of
// them up in docs/runbook.md.
func (p page) ReasonSays(reason wire.Reason) string {
	return map[wire.Reason]string{
		wire.ReasonSHAMismatch:     p.T("Wait: a whole copy takes the place of this one. Do not discard it before, since that uses up the ID."),
		wire.ReasonTruncated:       p.T("Send it again under a new name. Discard the part."),
		wire.ReasonCorruptMember:   p.T("A robot's batch points to a fault in its program or memory: keep the file, tell the developers, and go back to the release before if there is one."),
		wire.ReasonHostNotAssigned: p.T("If the robot is honest and the pages are wanted, release it: this check is then waived for the batch."),
		wire.ReasonPathEscape:      p.T("Ask where the file comes from. Pack a foreign one again with plain paths."),
		wire.ReasonLinkEntry:       p.T("Pack the files themselves (tar --dereference --hard-dereference) and import it again; discard this one."),
		wire.ReasonBombRatio:       p.T("Discard it. If it is an import that you trust, import it in parts, or raise import.max_bytes."),
		wire.ReasonIDReuse:         p.T("Discard it. Stop the second robot; let it join as a robot of its own, with an empty folder."),
		wire.ReasonBadSignature:    p.T("Discard it. If the site replaced the key, it restores the old one or joins with a new token."),
		wire.ReasonClock:           p.T("Have the wrong clock set (NTP). Then release the batch, if its dates are good enough: the check is waived for it."),
		wire.ReasonForeign:         p.T("Give a map of folders and hosts (drop.hosts, or sheaf archive import --hosts) and send it again under a new name. Discard this one."),
	}[reason]
}

// advise adds to a failure what to do about it. If the reader's role allows it, the button carries
// the advice out. Otherwise it leads to the page that shows more.
func (p page) advise(f Failure) advice {
	a := advice{Failure: f, Says: p.says(f.Kind), Button: p.T("Look"), To: f.Path}
	act := func(button, to, act string) {
		if p.May(operators.Worker) {
			a.Button, a.To, a.Act, a.Form = button, to, act, true
		}
	}
	switch f.Kind {
	case KindQuarantine, KindRemovals:
		a.Button = p.T("Decide")
	case KindPublication:
		act(p.T("Publish now"), pathPublish, "")
	case KindRobot + string(wire.TroubleOld):
		act(p.T("Look for its release now"), f.Path, "upgrade")
	}
	if a.To == "" {
		a.Button = ""
	}
	return a
}

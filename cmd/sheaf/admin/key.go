package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
)

func KeyCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "key", Short: "List the service's keys, and rotate the one that signs"})
	cmd.AddCommand(asks("ls", "List the keys, and the robots that do not know the newest of the service's", service.ListKeys, showKeys), keyRotateCommand(), keyUseCommand())
	return cmd
}

func keyRotateCommand() *cobra.Command {
	var wanted service.KeyRotation
	return asking(&cobra.Command{
		Use:   "rotate",
		Short: "Make the next key of the service, and tell the robots of it",
		Long: `Make the next key of the service, which signs receipts, hand-overs and the links to robots' pages.
The key that signs now goes on signing. It signs a statement about the next one, which the robots get
when they start and at each poll (an hour). "sheaf key ls" shows which robots do not know the key yet.
When all do, "sheaf key use" lets it sign. Nothing is restarted.

If the key was stolen, give --compromised: a thief can sign statements, too, so none is made. The new
key signs at once, and each robot has to be joined again.`,
	}, service.RotateKey, &wanted, "compromised", func(w io.Writer, list service.KeyList) {
		showKeys(w, list)
		if wanted.Compromised {
			fmt.Fprint(w, "\nThe new key signs. The robots above refuse its receipts, keep their batches, and have to be joined again, each at its site:\n"+
				"  sheaf robot revoke NAME, sheaf robot add NAME; there: stop robotd, delete robot.json in its folder, robotd join, start it\n"+
				"Make a backup now: none from before has the new key.\n")
			return
		}
		fmt.Fprint(w, "\nMake a backup now, and when \"sheaf key ls\" shows no robots any more, run: sheaf key use\n")
	})
}

func keyUseCommand() *cobra.Command {
	return asking(&cobra.Command{Use: "use", Short: "Let the next key of the service sign; the former one is destroyed"},
		service.UseKey, new(service.KeyUse), "leave", func(w io.Writer, list service.KeyList) {
			showKeys(w, list)
			fmt.Fprint(w, "\nThe next key signs in all processes. Make a backup now: older ones do not have what has changed.\n")
		})
}

func showKeys(w io.Writer, list service.KeyList) {
	Table(w, "key\tstate\tmade\tin use since\tid\tfor\twhere", list.Keys, func(k service.Key) []any {
		return []any{k.Name, k.State, Moment(k.Made), Moment(k.Used), fmt.Sprintf("%.16s", k.ID), k.For, k.Where}
	})
	if len(list.Robots) > 0 {
		fmt.Fprintln(w)
		Table(w, "robot\tdoes not know the service's newest key", list.Robots, func(r api.KeyTrouble) []any { return []any{r.Robot, r.Why} })
	}
}

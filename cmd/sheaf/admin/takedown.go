package admin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/route"
)

// takedownCommand returns a command that asks for an operation on a host. done is the output's
// format, with the request's subject and the catalog's version.
func takedownCommand(verb, short string, op route.Op[upkeep.TakedownRequest, upkeep.TakedownResponse], done string) *cobra.Command {
	var t upkeep.TakedownRequest
	fields := "edition url_prefix reason by=$USER"
	if op.Act == upkeep.TakeDown.Act {
		fields += " unknown"
	}
	return asking(&cobra.Command{
		Use:    verb + " HOST --reason TEXT",
		Short:  short,
		PreRun: func(_ *cobra.Command, args []string) { t.Host = args[0] },
	}, op, &t, fields, func(w io.Writer, at upkeep.TakedownResponse) {
		fmt.Fprintf(w, done, named(&t), at.Version)
	})
}

// named returns the subject of a request about a host: the host, or a part of it.
func named(t *upkeep.TakedownRequest) string {
	what := t.Host
	if t.URLPrefix != "" {
		what += ", as far as URLs begin with " + t.URLPrefix + ","
	}
	if t.Edition != "" {
		what = "edition " + t.Edition + " of " + what
	}
	return what
}

func hostTakedownsCommand() *cobra.Command {
	var q upkeep.TakedownQuery
	return asking(&cobra.Command{
		Use:    "takedowns [HOST]",
		Short:  "List what was taken down and lifted, when, by whom and why",
		PreRun: func(_ *cobra.Command, args []string) { q.Host = strings.Join(args, "") },
	}, upkeep.ListTakedowns, &q, "", func(w io.Writer, list []catalog.Tombstone) {
		acts := map[catalog.Act]string{catalog.TakeDown: "take down", catalog.Lift: "lift", catalog.Erase: "delete"}
		Table(w, "host\tact\tedition\tcollection\turl\tat\tby\treason", list, func(t catalog.Tombstone) []any {
			return []any{t.Host, acts[t.Act], t.Edition, t.Collection, t.URLPrefix, t.At.Format(time.RFC3339), t.By, t.Reason}
		})
	})
}

package admin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/ingest"
	"sheaf/ingest/inbox"
	"sheaf/internal/route"
	"sheaf/serve/client"
)

// ImportTime is the most time that sending and converting one file may take.
const ImportTime = 24 * time.Hour

func BatchCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "batch", Short: "List batches and their states, publish, and decide about quarantined ones"})
	cmd.AddCommand(batchListCommand(), batchShowCommand(), batchPublishCommand(), batchOthersCommand(),
		batchDecisionCommand("release", ingest.ReleaseBatch, "Take a quarantined batch up again, without the checks of its hosts and clock that it failed"),
		batchDecisionCommand("discard", ingest.DiscardBatch, "Delete the file of a quarantined batch; its ID stays used"))
	return cmd
}

func batchListCommand() *cobra.Command {
	return asking(&cobra.Command{Use: "ls", Short: "List how many batches are in each state, and the latest ones"},
		ingest.ListBatches, new(ingest.BatchQuery), "state robot", func(w io.Writer, list ingest.BatchList) {
			Table(w, "state\tbatches\tbytes\toldest", list.Buffers, func(b inbox.Buffer) []any {
				return []any{b.State, b.Batches, b.Bytes, time.Duration(b.Oldest * float64(time.Second)).Round(time.Second)}
			})
			fmt.Fprintln(w)
			Table(w, "batch\tstate\tbytes\thosts\tedition\twhy", list.Batches, func(b *inbox.Batch) []any {
				return []any{b.ID, b.State, b.Size, b.Hosts, b.Edition, why(b)}
			})
		})
}

func batchShowCommand() *cobra.Command {
	return asks("show ID", "Show one batch: its state, and where and why it failed", ingest.ShowBatch, func(w io.Writer, b *inbox.Batch) {
		facts(w, [][2]string{
			{"batch", string(b.ID)}, {"robot", b.Robot}, {"state", fmt.Sprintf("%s since %s", b.State, b.Entered.Format(time.RFC3339))},
			{"bytes", fmt.Sprint(b.Size)}, {"hosts", fmt.Sprint(b.Hosts)}, {"sha256", b.SHA256}, {"attempt", fmt.Sprint(b.Attempt)},
			{"manifest", inferred(b)}, {"incoming", b.Incoming}, {"edition", b.Edition}, {"reason", string(b.Reason)}, {"detail", b.Detail},
			{"last error", b.LastError}, {string(b.Decision), decidedBy(b)},
		})
	})
}

// why returns the reason for a batch's state and the operators' decision, in a few words.
func why(b *inbox.Batch) string {
	words := []string{string(b.Reason), string(b.Decision)}
	if b.Inferred {
		words = append(words, "inferred")
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// inferred says where the manifest comes from if the robot sent none.
func inferred(b *inbox.Batch) string {
	if !b.Inferred {
		return ""
	}
	return "inferred: none came, so the file itself was read to its end"
}

// decidedBy returns who made the last decision about the batch, when and why.
func decidedBy(b *inbox.Batch) string {
	if b.Decision == "" {
		return ""
	}
	text := fmt.Sprintf("by %s at %s", b.DecidedBy, b.DecidedAt.Format(time.RFC3339))
	if b.Note != "" {
		text += ": " + b.Note
	}
	return text
}

func batchDecisionCommand(verb string, op route.Op[route.At[inbox.Order], *inbox.Batch], short string) *cobra.Command {
	return asking(&cobra.Command{Use: verb + " ID", Short: short}, op, new(route.At[inbox.Order]), "note by=$USER", func(w io.Writer, b *inbox.Batch) {
		fmt.Fprintf(w, "batch %s %s %s\n", b.ID, b.Decision, decidedBy(b))
	})
}

func batchPublishCommand() *cobra.Command {
	return asks("publish", "Publish all batches that wait for it now, without regard to the publish window", ingest.Publish, func(w io.Writer, done ingest.Published) {
		fmt.Fprintf(w, "published %d batches in edition %s\n", done.Batches, done.Edition)
	})
}

func batchOthersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "others ID",
		Short: "Write the records of an imported WARC that are not in the archive (requests, metadata, …) as .warc.gz",
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			c.HTTP.Timeout = ImportTime
			ref, _ := ingest.ShowOthers.Call(args[0])
			return c.Get(cmd.Context(), ref, cmd.OutOrStdout())
		}),
	}
}

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/ingest/ledger"
	"sheaf/ingest/quarantine"
	"sheaf/internal/api"
	"sheaf/internal/terminal"
	"sheaf/serve/client"
)

func batchCommand() *cobra.Command {
	cmd := operatorFlags(&cobra.Command{Use: "batch", Short: "List batches and their states, publish, and decide about quarantined ones"})
	cmd.AddCommand(batchListCommand(), batchShowCommand(), batchPublishCommand(), batchOthersCommand(),
		batchDecisionCommand("release", "Take a quarantined batch up again, without the checks of its hosts and clock that it failed"),
		batchDecisionCommand("discard", "Delete the file of a quarantined batch; its ID stays used"))
	return cmd
}

func batchListCommand() *cobra.Command {
	var state, robot string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List how many batches are in each state, and the latest ones",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			type answer struct {
				Buffers []ledger.Buffer `json:"buffers"`
				Batches []ledger.Batch  `json:"batches"`
			}
			return ask(cmd, c, http.MethodGet, withQuery(api.PathAdminBatches, "state", state, "robot", robot), nil, func(w io.Writer, list answer) {
				table(w, "state\tbatches\tbytes\toldest", list.Buffers, func(b ledger.Buffer) []any {
					return []any{b.State, b.Batches, b.Bytes, time.Duration(b.Oldest * float64(time.Second)).Round(time.Second)}
				})
				fmt.Fprintln(w)
				table(w, "batch\tstate\tbytes\thosts\tedition\twhy", list.Batches, func(b ledger.Batch) []any {
					return []any{b.ID, b.State, b.Size, b.Hosts, b.Edition, why(&b)}
				})
			})
		}),
	}
	cmd.Flags().StringVar(&state, "state", "", "only batches in this state, such as quarantined")
	cmd.Flags().StringVar(&robot, "robot", "", "only batches of this robot")
	return cmd
}

func batchShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one batch: its state, and where and why it failed",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return ask(cmd, c, http.MethodGet, below(api.PathAdminBatches, args[0]), nil, func(w io.Writer, b ledger.Batch) {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintf(tw, "batch\t%s\nrobot\t%s\nstate\t%s since %s\nbytes\t%d\nhosts\t%d\nsha256\t%s\nattempt\t%d\n",
					b.ID, b.Robot, b.State, b.Entered.Format(time.RFC3339), b.Size, b.Hosts, b.SHA256, b.Attempt)
				for _, line := range [][2]string{{"manifest", inferred(&b)}, {"incoming", b.Incoming}, {"edition", b.Edition}, {"reason", string(b.Reason)}, {"detail", b.Detail},
					{"last error", b.LastError}, {string(b.Decision), decidedBy(&b)}} {
					if line[1] != "" {
						fmt.Fprintf(tw, "%s\t%s\n", line[0], terminal.Text(line[1]))
					}
				}
				tw.Flush()
			})
		}),
	}
}

// why returns the reason for a batch's state, in a word or two.
func why(b *ledger.Batch) string {
	words := []string{string(b.Reason), string(b.Decision)}
	if b.Inferred {
		words = append(words, "inferred")
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// inferred returns where the manifest is from, if not from the robot.
func inferred(b *ledger.Batch) string {
	if !b.Inferred {
		return ""
	}
	return "inferred: none came, so the file itself was read to its end"
}

// decidedBy returns who made the last decision about the batch, when and why.
func decidedBy(b *ledger.Batch) string {
	if b.Decision == "" {
		return ""
	}
	text := fmt.Sprintf("by %s at %s", b.DecidedBy, b.DecidedAt.Format(time.RFC3339))
	if b.Note != "" {
		text += ": " + b.Note
	}
	return text
}

func batchDecisionCommand(verb, short string) *cobra.Command {
	var word quarantine.Word
	cmd := &cobra.Command{
		Use:   verb + " ID",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return ask(cmd, c, http.MethodPost, below(api.PathAdminBatches, args[0])+"/"+verb, word, func(w io.Writer, b ledger.Batch) {
				fmt.Fprintf(w, "batch %s %s %s\n", b.ID, b.Decision, decidedBy(&b))
			})
		}),
	}
	cmd.Flags().StringVar(&word.By, "by", os.Getenv("USER"), "who decides (USER)")
	cmd.Flags().StringVar(&word.Note, "note", "", "why; kept with the batch")
	return cmd
}

func batchPublishCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "publish",
		Short: "Publish all batches that wait for it now, without regard to the publish window",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			return ask(cmd, c, http.MethodPost, api.PathAdminPublish, nil, func(w io.Writer, published map[string]any) {
				fmt.Fprintf(w, "published %v batches in edition %v\n", published["batches"], published["edition"])
			})
		}),
	}
}

func batchOthersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "others ID",
		Short: "Write the records of an imported WARC that are not in the archive (requests, metadata, …) as .warc.gz",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			c.HTTP.Timeout = importTime
			return c.Get(cmd.Context(), below(api.PathAdminBatches, args[0])+"/others", cmd.OutOrStdout())
		}),
	}
}

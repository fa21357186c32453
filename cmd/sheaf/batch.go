package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
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
	cmd := operatorFlags(&cobra.Command{Use: "batch", Short: "Look at the batches in the four buffers, and decide about bad ones"})
	cmd.AddCommand(batchListCommand(), batchShowCommand(), batchPublishCommand(), batchOthersCommand(),
		batchDecisionCommand("release", "Take a quarantined batch up again; a judgement of its hosts or clock is waived"),
		batchDecisionCommand("discard", "Delete a quarantined batch's file; its ID stays used"))
	return cmd
}

func batchListCommand() *cobra.Command {
	var state, robot string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the buffers and the latest batches",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			query := url.Values{}
			if state != "" {
				query.Set("state", state)
			}
			if robot != "" {
				query.Set("robot", robot)
			}
			var doc struct {
				Buffers []ledger.Buffer `json:"buffers"`
				Batches []ledger.Batch  `json:"batches"`
			}
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminBatches+"?"+query.Encode(), nil, &doc); err != nil {
				return err
			}
			return show(cmd, doc, func(w io.Writer) error {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "buffer\tbatches\tbytes\toldest")
				for _, b := range doc.Buffers {
					fmt.Fprintf(tw, "%s\t%d\t%d\t%s\n", b.State, b.Batches, b.Bytes, time.Duration(b.Oldest*float64(time.Second)).Round(time.Second))
				}
				fmt.Fprintln(tw, "\nbatch\tstate\tbytes\thosts\tedition\twhy")
				for _, b := range doc.Batches {
					fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\t%s\n", b.ID, b.State, b.Size, b.Hosts, b.Edition, why(&b))
				}
				return tw.Flush()
			})
		}),
	}
	cmd.Flags().StringVar(&state, "state", "", "only batches in this state, such as quarantined")
	cmd.Flags().StringVar(&robot, "robot", "", "only this robot's batches")
	return cmd
}

func batchShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one batch: its state, and where and why it failed",
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var b ledger.Batch
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminBatches+"/"+url.PathEscape(args[0]), nil, &b); err != nil {
				return err
			}
			return show(cmd, b, func(w io.Writer) error {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintf(tw, "batch\t%s\nrobot\t%s\nstate\t%s since %s\nbytes\t%d\nhosts\t%d\nsha256\t%s\nattempt\t%d\n",
					b.ID, b.Robot, b.State, b.Entered.Format(time.RFC3339), b.Size, b.Hosts, b.SHA256, b.Attempt)
				for _, line := range [][2]string{{"manifest", inferred(&b)}, {"edition", b.Edition}, {"reason", string(b.Reason)}, {"detail", b.Detail}, {"last error", b.LastError},
					{string(b.Decision), decidedBy(&b)}} {
					if line[1] != "" {
						fmt.Fprintf(tw, "%s\t%s\n", line[0], terminal.Text(line[1]))
					}
				}
				return tw.Flush()
			})
		}),
	}
}

// why says in a word or two what is to be known of a batch.
func why(b *ledger.Batch) string {
	words := []string{string(b.Reason), string(b.Decision)}
	if b.Inferred {
		words = append(words, "inferred")
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// inferred tells where the manifest is from, if it is not the robot's.
func inferred(b *ledger.Batch) string {
	if !b.Inferred {
		return ""
	}
	return "inferred: none came, so the file itself was read to its end"
}

// decidedBy tells whose decision about the batch was the last one.
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
			var b ledger.Batch
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminBatches+"/"+url.PathEscape(args[0])+"/"+verb, word, &b); err != nil {
				return err
			}
			return show(cmd, b, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "batch %s %s %s\n", b.ID, b.Decision, decidedBy(&b))
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&word.By, "by", os.Getenv("USER"), "who decides (USER)")
	cmd.Flags().StringVar(&word.Note, "note", "", "why, kept with the batch")
	return cmd
}

func batchPublishCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "publish",
		Short: "Publish what waits now, whatever the publish window says",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var published map[string]any
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminPublish, nil, &published); err != nil {
				return err
			}
			return show(cmd, published, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "published %v batches in edition %v\n", published["batches"], published["edition"])
				return err
			})
		}),
	}
}

func batchOthersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "others ID", Short: "Write the records of an imported WARC that are in no archive (requests, metadata, ...) as a .warc.gz", Args: cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			c.HTTP.Timeout = importTime
			return c.Get(cmd.Context(), api.PathAdminBatches+"/"+url.PathEscape(args[0])+"/others", cmd.OutOrStdout())
		}),
	}
}

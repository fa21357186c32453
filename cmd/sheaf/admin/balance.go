package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sheaf/manager"
	"sheaf/manager/balance"
)

func BalanceCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "balance", Short: "Show and plan which robot collects which host"})
	cmd.AddCommand(balancePlan(), balanceShow(), balanceSeries(), balanceCosts(), balanceForecast(),
		asks("cancel", "Give up the plan that is being made; the last one stays", manager.CancelPlan, nil))
	return cmd
}

// planOutput is the plan as --json prints it.
type planOutput struct {
	Assignment  balance.Plan `json:"assignment"` // robot of each host
	Makespan    float64      `json:"makespan_ms"`
	Bound       float64      `json:"lower_bound_ms"`
	Moved       int          `json:"moved"`
	Explanation []string     `json:"explanation,omitempty"`
}

func balancePlan() *cobra.Command {
	var costs, method, from string
	var explain, live, apply bool
	cmd := &cobra.Command{
		Use:   "plan --costs FILE.json | --live",
		Short: "Plan which robot collects which host, without changing anything",
		Long: `Plan which robot collects which host, without changing anything.

FILE is JSON: {"t": [[…], …]} has a list for each robot, with the milliseconds of transfer that each host
takes from there, or null if the robot cannot collect the host. The method "paper" builds a tree of the
robots from {"distance": [[…], …]} or, without that, from how alike their times are. With --from, a plan
as --json prints it, the new plan begins with that one and moves few hosts.

With --live, the running service makes the plan, from what its robots have measured and beginning with
the present assignment. It only changes the assignment with --apply. Meanwhile "sheaf balance show" says how
far it is. Ctrl-C or "sheaf balance cancel" gives the plan up, and so does the service after ten minutes.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if live {
				return livePlan(cmd, explain, apply)
			}
			in, err := readCosts(costs)
			if err != nil {
				return err
			}
			before, err := readPlan(from, in.costs)
			if err != nil {
				return err
			}
			r, err := in.plan(method, before)
			if err != nil {
				return err
			}
			out := planOutput{Assignment: r.Plan, Makespan: r.Makespan, Bound: r.Bound, Moved: r.Plan.Moved(before)}
			if explain {
				out.Explanation = balance.Explain(in.costs, r, before, strconv.Itoa, strconv.Itoa)
			}
			return Show(cmd, out, func(w io.Writer) { out.table(w, in.costs, before) })
		},
	}
	cmd.Flags().StringVar(&costs, "costs", "", "file with the costs; - for standard input")
	cmd.Flags().StringVar(&method, "method", "optimal", "optimal, or paper (spanning tree, levelling between neighbours)")
	cmd.Flags().StringVar(&from, "from", "", "a plan to begin with, so that few hosts move")
	cmd.Flags().BoolVar(&explain, "explain", false, "explain the plan")
	cmd.Flags().BoolVar(&live, "live", false, "let the running service plan")
	cmd.Flags().BoolVar(&apply, "apply", false, "with --live: assign the hosts by the plan")
	cmd.MarkFlagsOneRequired("costs", "live")
	cmd.MarkFlagsMutuallyExclusive("costs", "live")
	cmd.MarkFlagsMutuallyExclusive("costs", "apply")
	return cmd
}

// costsInput is the content of the file with the costs.
type costsInput struct {
	costs    *balance.Costs
	distance [][]float64 // nil if not given
}

func readCosts(name string) (in costsInput, err error) {
	data, err := os.ReadFile(name)
	if name == "-" {
		data, err = io.ReadAll(os.Stdin)
	}
	if err != nil {
		return in, err
	}
	var file struct {
		T        []json.RawMessage `json:"t"`
		Distance []json.RawMessage `json:"distance"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return in, fmt.Errorf(`%s: %w; want {"t": [[ms per host] per robot]}`, name, err)
	}
	t, err := readRows(file.T)
	if err == nil {
		in.costs, err = balance.Matrix(t)
	}
	if err != nil {
		return in, fmt.Errorf("%s: t: %w", name, err)
	}
	if file.Distance == nil {
		return in, nil
	}
	in.distance, err = readRows(file.Distance)
	for i, row := range in.distance {
		if err == nil && (len(in.distance) != len(t) || len(row) != len(t)) {
			err = fmt.Errorf("row %d has %d of %d robots' distances", i, len(row), len(t))
		}
	}
	if err != nil {
		return in, fmt.Errorf("%s: distance: %w", name, err)
	}
	return in, nil
}

// readRows parses rows of numbers, and null as +Inf. With encoding/json, a hundred million numbers
// would take minutes.
func readRows(raw []json.RawMessage) ([][]float64, error) {
	rows := make([][]float64, len(raw))
	for i, text := range raw {
		text = bytes.TrimSpace(text)
		if len(text) < 2 || text[0] != '[' {
			return nil, fmt.Errorf("row %d is not a list of numbers", i)
		}
		text = bytes.TrimSpace(text[1 : len(text)-1])
		if len(text) == 0 {
			continue
		}
		rows[i] = make([]float64, 0, bytes.Count(text, []byte(","))+1)
		for field := range bytes.SplitSeq(text, []byte(",")) {
			field = bytes.TrimSpace(field)
			v := math.Inf(1)
			if string(field) != "null" {
				var err error
				if v, err = strconv.ParseFloat(string(field), 64); err != nil {
					return nil, fmt.Errorf("row %d, host %d: %.40s is not a number", i, len(rows[i]), field)
				}
			}
			rows[i] = append(rows[i], v)
		}
	}
	return rows, nil
}

func readPlan(name string, c *balance.Costs) (balance.Plan, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file planOutput
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf(`%s: %w; want {"assignment": [robot per host]}`, name, err)
	}
	if file.Assignment == nil {
		return nil, fmt.Errorf(`%s: no assignment; want {"assignment": [robot per host]}`, name)
	}
	if len(file.Assignment) > c.Hosts {
		return nil, fmt.Errorf("%s: plan of %d hosts, the costs are of %d", name, len(file.Assignment), c.Hosts)
	}
	return file.Assignment, nil
}

// paperRounds is the number of rounds of levelling in docs/papers.md, paper 001 (4.3.1, Figure 18).
const paperRounds = 20

func (in costsInput) plan(method string, from balance.Plan) (balance.Result, error) {
	switch method {
	case "optimal":
		if from == nil {
			return balance.Optimal(in.costs), nil
		}
		return balance.Replan(in.costs, from)
	case "paper":
		if from != nil && len(from) < in.costs.Hosts {
			return balance.Result{}, errors.New("the paper's method goes on from a plan of all hosts only")
		}
		distance := in.distance
		if distance == nil {
			distance = balance.Distances(in.costs)
		}
		return balance.Paper(in.costs, balance.Prim(distance), from, paperRounds)
	}
	return balance.Result{}, fmt.Errorf("method %q: want optimal or paper", method)
}

// table prints the plan, a line for each robot.
func (o planOutput) table(w io.Writer, c *balance.Costs, before balance.Plan) {
	hosts, came, went := make([]int, c.Robots), make([]int, c.Robots), make([]int, c.Robots)
	for j, i := range o.Assignment {
		hosts[i]++
		if j < len(before) && before[j] != i {
			came[i]++
			if b := before[j]; b >= 0 && b < c.Robots {
				went[b]++
			}
		}
	}
	head := "robot\thosts\ttime\tof the longest"
	if before != nil {
		head += "\tcame\twent"
	}
	var rows [][]any
	for i, ms := range o.Assignment.Loads(c) {
		row := []any{i, hosts[i], span(ms), percent(ms, o.Makespan)}
		if before != nil {
			row = append(row, came[i], went[i])
		}
		rows = append(rows, row)
	}
	Table(w, head, rows, func(row []any) []any { return row })
	fmt.Fprintf(w, "\nThe plan ends after %s. No plan ends before %s; this one is at most %.1f %% above the best.\n", span(o.Makespan), span(o.Bound), 100*(o.Makespan/max(o.Bound, 1e-9)-1))
	if before != nil {
		fmt.Fprintf(w, "%d of %d hosts move.\n", o.Moved, len(o.Assignment))
	}
	sentences(w, o.Explanation)
}

// span formats milliseconds for people.
func span(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case ms < 10_000:
		return fmt.Sprintf("%.0fms", ms)
	case ms < 1e12:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.3g years", ms/3.156e10)
}

func percent(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*part/whole)
}

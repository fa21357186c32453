package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/ui/board"
)

func WrongCommand() *cobra.Command {
	return OperatorFlags(asks("wrong", "Say what is wrong now, as the board's first page does", board.ListWrong, func(w io.Writer, answer board.WrongResponse) {
		if len(answer.Wrong) == 0 {
			fmt.Fprintln(w, "nothing is wrong")
			return
		}
		Table(w, "kind\twhat\tsince\twhy", answer.Wrong, func(f board.Failure) []any {
			return []any{f.Kind, f.What, Moment(f.Since), f.Why}
		})
	}))
}

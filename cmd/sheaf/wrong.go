package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/ui/board"
)

func wrongCommand() *cobra.Command {
	return operatorFlags(onAll("wrong", "Say what is wrong now, as the board's first page does", board.ListWrong, func(w io.Writer, answer board.WrongResponse) {
		if len(answer.Wrong) == 0 {
			fmt.Fprintln(w, "nothing is wrong")
			return
		}
		table(w, "kind\twhat\tsince\twhy", answer.Wrong, func(f board.Failure) []any {
			return []any{f.Kind, f.What, moment(f.Since), f.Why}
		})
	}))
}

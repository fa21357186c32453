package service

import (
	"context"
	"fmt"
	"time"

	"sheaf/internal/db"
)

// mostAhead is the largest difference allowed between a machine's clock and the database's.
const mostAhead = 30 * time.Second

// compareClocks returns an error if the machine's clock differs too much from the database's.
func compareClocks(ctx context.Context, clock *db.Clock) error {
	ahead, err := clock.Measure(ctx)
	if err != nil || ahead.Abs() <= mostAhead {
		return err
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return advice(fmt.Sprintf("this machine's clock is %v %s the database's: set the wrong one (NTP); until then windows, sessions and "+
		"tokens begin and end by this machine's clock", ahead.Abs().Round(time.Second), way))
}

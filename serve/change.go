package serve

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"sheaf/internal/window"
	"sheaf/serve/bandwidth"
)

// Change says what becomes different of an account. What is nil stays.
type Change struct {
	Domains  []string         `json:"domains,omitempty"`
	Window   *window.Schedule `json:"window,omitempty"`
	Rate     *bandwidth.Rates `json:"rate,omitempty"`  // "unlimited" takes the limit away
	Quota    *int64           `json:"quota,omitempty"` // 0 takes it away
	Password *string          `json:"password,omitempty"`
}

// Change changes an account and returns it as it is then. Transfers that run go
// on under the new limits: at once in this process, in others as they look (Watch).
func (a *Accounts) Change(ctx context.Context, name string, c Change) (Account, error) {
	probe := Account{Name: name, Domains: c.Domains}
	var domains, opening, rate, password *string
	if c.Domains == nil {
		probe.Domains = []string{"*"}
	} else {
		joined := strings.Join(c.Domains, " ")
		domains = &joined
	}
	if c.Quota != nil {
		probe.Quota = *c.Quota
	}
	if err := probe.check(); err != nil {
		return Account{}, err
	}
	if c.Window != nil {
		text := c.Window.String()
		opening = &text
	}
	if c.Rate != nil {
		text := c.Rate.String()
		rate = &text
	}
	if c.Password != nil {
		if *c.Password == "" {
			return Account{}, fmt.Errorf("%w: %s: the password is empty", ErrAccount, name)
		}
		phc := hashPassword(*c.Password)
		password = &phc
	}
	row := a.db.QueryRowContext(ctx, `UPDATE accounts SET domains = COALESCE($2, domains), opening = COALESCE($3, opening),
		rate = COALESCE($4, rate), quota = COALESCE($5, quota), password = COALESCE($6, password)
		WHERE name = $1 RETURNING `+accountColumns, name, domains, opening, rate, c.Quota, password)
	now, phc, err := scanAccount(row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Account{}, fmt.Errorf("account %s: %w", name, ErrNoAccount)
	case err != nil:
		return Account{}, err
	}
	if a.memory != nil {
		a.memory.note(name, now, phc)
	}
	a.following.learn(now)
	return *now, nil
}

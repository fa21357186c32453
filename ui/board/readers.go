package board

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/display"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/internal/window"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
)

// Forms of the pages about readers and their rights.
type (
	accountForm struct {
		Name     string `form:"name"`
		Domains  string `form:"domains" required:"true"`
		Window   string `form:"window"`
		Rate     string `form:"rate"`
		Quota    string `form:"quota"`
		Email    string `form:"email"`
		Terms    string `form:"terms"`
		Purpose  string `form:"purpose"`
		Accepted string `form:"accepted"`
	}
	suspendForm struct {
		Suspended bool `form:"suspended"`
	}
	tokenForm struct {
		Token string `form:"token" required:"true"`
	}
	operatorForm struct {
		Name string         `form:"name"`
		Act  string         `form:"act" enum:"role,suspend,resume,password"`
		Role operators.Role `form:"role"`
	}
	ownForm struct {
		Old string `form:"old"`
		New string `form:"new"`
	}
	ruleForm struct {
		Domain     string `form:"domain"`
		Prefix     string `form:"prefix"`
		Collection string `form:"collection"`
		From       string `form:"from"`
		To         string `form:"to"`
		Accounts   string `form:"accounts"`
		Terms      string `form:"terms"`
		Addresses  string `form:"addresses"`
		Until      string `form:"until"`
		Days       int    `form:"days" min:"0"`
		Reason     string `form:"reason"`
	}
	takedownForm struct {
		Host       string `form:"host"`
		Edition    string `form:"edition"`
		Prefix     string `form:"prefix"`
		Collection string `form:"collection"`
		Robot      string `form:"robot"`
		Reason     string `form:"reason"`
		Unknown    bool   `form:"unknown"`
	}
)

// justName is a read function for does. It is for forms that have only a button: the request is the
// name in the path.
func justName(_ route.None, name string) (string, error) { return name, nil }

// registerReaders mounts the pages about readers for which this process has the data, or all of
// them.
func (b *board) registerReaders(mount route.Mount, all bool) {
	if all || b.Accounts != nil {
		b.registerAccounts(mount)
		rules := b.list(mount, pathAccess, "access", "The access rules, with a form that adds one", b.fillRules)
		does(rules, mount, pathAccess, httpd.AddRule, b.Accounts.AddRule, ruleForm.rule, nil, nil)
		does(rules, mount, pathAccess+"/{name}/remove", httpd.RemoveRule, route.Done(b.Accounts.RemoveRule), justName, nil, nil)
	}
	if all || b.Operators != nil {
		b.registerOperators(mount)
	}
	if all || b.Ingest != nil {
		downs := b.list(mount, pathTakedowns, "takedowns", "What was taken down and lifted", b.fillTakedowns)
		does(downs, mount, pathTakedowns, upkeep.TakeDown, b.Ingest.Takedowns.TakeDown, takedownForm.request, nil, nil)
		does(downs, mount, pathTakedowns+"/lift", upkeep.Lift, b.Ingest.Takedowns.Lift, takedownForm.request, nil, nil)
		imported := b.list(mount, pathCollections, "collections", "What was imported as collections", b.fillCollections)
		does(imported, mount, pathCollections+"/takedown", upkeep.TakeDown, b.Ingest.Takedowns.TakeDown, takedownForm.request, nil, nil)
		does(imported, mount, pathCollections+"/lift", upkeep.Lift, b.Ingest.Takedowns.Lift, takedownForm.request, nil, nil)
	}
}

func (b *board) registerAccounts(mount route.Mount) {
	accounts := b.list(mount, pathAccounts, "accounts", "The accounts of readers", b.fillAccounts)
	does(accounts, mount, pathAccounts, httpd.CreateAccount, b.Accounts.Create, accountForm.account, func(made account.NewAccount) string {
		return made.Name + "  " + made.Password
	}, nil)
	const path = pathAccounts + "/{name}"
	one := b.list(mount, path, "account", "One account: what it may fetch, and what it fetches", b.fillAccount)
	does(one, mount, path, httpd.ChangeAccount, b.Accounts.Change, accountForm.change, nil, nil)
	does(one, mount, path+"/suspend", httpd.ChangeAccount, b.Accounts.Change, func(f suspendForm, name string) (route.At[account.Change], error) {
		return route.At[account.Change]{Name: name, Body: account.Change{Suspended: &f.Suspended}}, nil
	}, nil, nil)
	does(one, mount, path+"/revoke", httpd.RevokeToken, route.Done(b.Accounts.Revoke), func(f tokenForm, name string) (httpd.TokenOf, error) {
		return httpd.TokenOf{Account: name, ID: f.Token}, nil
	}, nil, nil)
	does(one, mount, path+"/reset", httpd.SendReset, route.Done(b.Accounts.SendReset), justName, nil, nil)
	does(one, mount, path+"/remove", httpd.DeleteAccount, route.Done(b.Accounts.Delete), justName, nil, accounts)
}

func (b *board) registerOperators(mount route.Mount) {
	list := b.list(mount, pathOperators, "operators", "The operators", b.fillOperators)
	secret := func(o operators.NewOperator) string {
		if o.Password == "" {
			return ""
		}
		return o.Name + "  " + o.Password
	}
	does(list, mount, pathOperators, operators.Create, b.Operators.Add, func(f operatorForm, _ string) (operators.NewOperator, error) {
		return operators.NewOperator{Operator: operators.Operator{Name: strings.TrimSpace(f.Name), Role: f.Role}}, nil
	}, secret, nil)
	const path = pathOperators + "/{name}"
	does(list, mount, path, operators.Modify, b.Operators.Change, operatorForm.change, secret, nil)
	does(list, mount, path+"/remove", operators.Remove, route.Done(b.Operators.Remove), justName, nil, nil)
	does(list, mount, pathOwnPassword, operators.SetOwn, route.Done(b.Operators.SetOwnPassword), func(f ownForm, _ string) (operators.NewPassword, error) {
		return operators.NewPassword(f), nil
	}, nil, nil)
}

// change returns the form's change of an account.
func (f accountForm) change(name string) (in route.At[account.Change], err error) {
	c := account.Change{Domains: strings.Fields(f.Domains), Email: new(strings.TrimSpace(f.Email)), Terms: new(account.Terms), Quota: new(int64)}
	if c.Window, err = window.Parse(cmp.Or(strings.TrimSpace(f.Window), "always")); err != nil {
		return in, err
	}
	if c.Rate, err = account.ParseRates(cmp.Or(strings.TrimSpace(f.Rate), "unlimited")); err != nil {
		return in, err
	}
	if *c.Quota, err = account.ParseQuota(cmp.Or(strings.TrimSpace(f.Quota), "0")); err != nil {
		return in, fmt.Errorf("quota: %w", err)
	}
	if f.Terms != "" || f.Purpose != "" {
		at, err := account.ParseTime(f.Accepted)
		if err != nil {
			return in, err
		}
		if at.IsZero() {
			at = time.Now().UTC().Truncate(24 * time.Hour)
		}
		*c.Terms = account.Terms{Name: f.Terms, Purpose: f.Purpose, Accepted: at}
	}
	return route.At[account.Change]{Name: name, Body: c}, nil
}

// account returns the form's new account.
func (f accountForm) account(string) (account.NewAccount, error) {
	in, err := f.change("")
	c := in.Body
	if err != nil {
		return account.NewAccount{}, err
	}
	return account.NewAccount{Account: account.Account{Name: strings.TrimSpace(f.Name), Domains: c.Domains, Window: c.Window, Rate: c.Rate, Quota: *c.Quota, Email: *c.Email, Terms: *c.Terms}}, nil
}

// given returns the form's values for an existing account.
func given(a account.Account) url.Values {
	v := url.Values{"domains": {strings.Join(a.Domains, " ")}, "window": {a.Window.String()}, "email": {a.Email}, "terms": {a.Terms.Name}, "purpose": {a.Terms.Purpose}}
	if a.Rate != nil {
		v.Set("rate", a.Rate.String())
	}
	if a.Quota > 0 {
		v.Set("quota", display.FormatBytes(a.Quota))
	}
	if !a.Terms.Accepted.IsZero() {
		v.Set("accepted", a.Terms.Accepted.Format(time.DateOnly))
	}
	return v
}

func (f operatorForm) change(name string) (route.At[operators.OperatorChange], error) {
	var c operators.OperatorChange
	switch f.Act {
	case "role":
		c.Role = &f.Role
	case "password":
		c.Password = new(string)
	case "suspend", "resume":
		c.Suspended = new(f.Act == "suspend")
	}
	return route.At[operators.OperatorChange]{Name: name, Body: c}, nil
}

func (f ruleForm) rule(string) (r account.Rule, err error) {
	r = account.Rule{Domain: strings.TrimSpace(f.Domain), URLPrefix: strings.TrimSpace(f.Prefix), Collection: f.Collection, Accounts: strings.Fields(f.Accounts), Terms: f.Terms, Days: f.Days, Reason: f.Reason}
	for _, at := range []struct {
		text string
		time *time.Time
	}{{f.From, &r.From}, {f.To, &r.To}, {f.Until, &r.Until}} {
		if *at.time, err = account.ParseTime(at.text); err != nil {
			return r, err
		}
	}
	for _, text := range strings.Fields(f.Addresses) {
		var p netip.Prefix
		if p, err = account.ParseNetwork(text); err != nil {
			return r, err
		}
		r.Addresses = append(r.Addresses, p)
	}
	return r, nil
}

func (f takedownForm) request(string) (upkeep.TakedownRequest, error) {
	return upkeep.TakedownRequest{
		Host: strings.TrimSpace(f.Host), Edition: f.Edition, URLPrefix: strings.TrimSpace(f.Prefix), Collection: f.Collection, Robot: f.Robot, Reason: f.Reason, Unknown: f.Unknown,
	}, nil
}

func (b *board) fillAccounts(r *http.Request, p *listPage) error {
	list, err := b.Accounts.List(r.Context(), route.None{})
	p.Live = make(map[string]int)
	for _, t := range b.Running.List(transfers.Filter{Direction: transfers.Download}) {
		p.Live[t.Who]++
	}
	fillLines(r, p, list.Accounts, func(a account.AccountLine) string { return a.Name + " " + a.Email })
	return err
}

// accountShown is the data of an account's page.
type accountShown struct {
	One           account.AccountLine
	Running, Last []transfers.Transfer // downloads; Running only those of this process
	Rates         []webpage.Chart
	Tokens        []account.Token
	Sends         bool // whether the service can mail a link for a new password
}

const lastShown = 20 // downloads since yesterday

func (b *board) fillAccount(r *http.Request, p *listPage) error {
	ctx, now, shown := r.Context(), time.Now(), accountShown{Sends: b.Accounts.Resets.Sends()}
	name := mux.Vars(r)["name"]
	list, err := b.Accounts.List(ctx, route.None{})
	i := slices.IndexFunc(list.Accounts, func(a account.AccountLine) bool { return a.Name == name })
	if err == nil && i < 0 {
		err = account.ErrNoAccount
	}
	if err != nil {
		return err
	}
	shown.One = list.Accounts[i]
	downloads := transfers.Filter{Who: name, Direction: transfers.Download, Since: now.AddDate(0, 0, -1), Limit: lastShown}
	days := transfers.PeriodFilter{By: transfers.Day, Since: b.Site.Local(now).AddDate(0, 0, 1-daysShown), Who: name, Direction: transfers.Download}
	tokens, err1 := b.Accounts.Tokens(ctx, name)
	last, err2 := b.Transfers.List(ctx, downloads)
	periods, err3 := b.Transfers.Periods(ctx, days)
	shown.Tokens, shown.Running, shown.Last, shown.Rates = tokens.Tokens, b.Running.List(downloads), last, Charts(p.Page, days, periods, now)
	if p.List = shown; len(p.Given) == 0 {
		p.Given = given(shown.One.Account)
	}
	return errors.Join(err1, err2, err3)
}

func (b *board) fillOperators(r *http.Request, p *listPage) error {
	list, err := b.Operators.List(r.Context(), route.None{})
	fillLines(r, p, list.Operators, func(o operators.Operator) string { return o.Name })
	return err
}

func (b *board) fillRules(r *http.Request, p *listPage) error {
	list, err := b.Accounts.ListRules(r.Context(), route.None{})
	fillLines(r, p, list.Rules, func(a account.Rule) string {
		return strings.Join([]string{a.Domain, a.URLPrefix, a.Collection, strings.Join(a.Accounts, " ")}, " ")
	})
	return err
}

func (b *board) fillCollections(r *http.Request, p *listPage) error {
	list, err := b.Ingest.Takedowns.Collections(r.Context(), route.None{})
	fillLines(r, p, list.Collections, func(c catalog.ImportedCollection) string { return c.Name })
	return err
}

// takenDown is a line of the page of take-downs: one row of the catalog, or all rows of one
// take-down of a collection or of a robot's archives.
type takenDown struct {
	catalog.Tombstone
	Standing bool
	Hosts    int
}

func (b *board) fillTakedowns(r *http.Request, p *listPage) error {
	rows, err := b.Ingest.Takedowns.List(r.Context(), upkeep.TakedownQuery{})
	standing := upkeep.Standing(rows)
	var lines []takenDown
	type act struct {
		collection, robot string
		act               catalog.Act
		at                int64
	}
	joined := make(map[act]int) // index of the line of each take-down of a collection or robot
	for i, t := range rows {
		key := act{t.Collection, t.Robot, t.Act, t.At.Unix()}
		if at, ok := joined[key]; ok && t.Collection+t.Robot != "" {
			lines[at].Hosts++
			lines[at].Standing = lines[at].Standing || standing[i]
			continue
		}
		joined[key] = len(lines)
		lines = append(lines, takenDown{t, standing[i], 1})
	}
	slices.SortStableFunc(lines, func(a, b takenDown) int {
		if a.Standing != b.Standing {
			return map[bool]int{true: -1, false: 1}[a.Standing]
		}
		return b.At.Compare(a.At)
	})
	fillLines(r, p, lines, func(t takenDown) string { return t.Host + " " + t.URLPrefix + " " + t.Collection + " " + t.Robot })
	return err
}

// Size formats a number of bytes for the form.
func (listPage) Size(n int64) string { return display.FormatBytes(n) }

// Roles returns the roles that an operator can have.
func (listPage) Roles() []operators.Role { return operators.Roles() }

// RoleName names a role in the reader's language.
func (p listPage) RoleName(r operators.Role) string {
	return cmp.Or(map[operators.Role]string{
		operators.Viewer: p.T("viewer"),
		operators.Worker: p.T("operator"),
		operators.Admin:  p.T("admin"),
	}[r], string(r))
}

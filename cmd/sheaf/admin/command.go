// Package admin has the commands by which operators look after a running service: sheaf host,
// robot, account, batch and so on. Each asks one of the service's operations, which are defined
// where their data is (package route), and prints the answer as a table or as JSON. Commands that
// work with the service's own files, such as sheaf fsck, are in package main; they share the flags
// here.
package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/commandline"
	"sheaf/internal/display"
	"sheaf/internal/route"
	"sheaf/internal/settings"
	"sheaf/serve/client"
)

// OperatorFlags adds the flags for finding the service to an operators' command.
func OperatorFlags(cmd *cobra.Command) *cobra.Command {
	f := cmd.PersistentFlags()
	f.String("url", envOr("SHEAF_URL", "http://127.0.0.1:8080"), "the service's address (SHEAF_URL)")
	f.String("data", envOr("SHEAF_DATA", "sheaf-data"), "the service's data directory, which has the operators' token (SHEAF_DATA)")
	f.String("config", "", "the service's settings file, from which address and data directory are taken unless they are given (default "+PackagedConfig+", if it can be read and neither is given)")
	f.String("token", "", "the operators' token, if the data directory is on another machine (default $SHEAF_TOKEN)")
	f.String("operator", os.Getenv("SHEAF_OPERATOR"), "an operator's name, instead of the token (SHEAF_OPERATOR); the password is in SHEAF_OPERATOR_PASSWORD")
	f.Bool("json", false, "print JSON")
	return cmd
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// SettingsFile returns the settings file that --config names or, if nothing else names a service,
// the package's file; "" if there is neither.
func SettingsFile(cmd *cobra.Command) string {
	file, _ := cmd.Flags().GetString("config")
	given := cmd.Flags().Changed("url") || cmd.Flags().Changed("data") || os.Getenv("SHEAF_URL") != "" || os.Getenv("SHEAF_DATA") != ""
	if file == "" && !given {
		file = packagedSettings()
	}
	return file
}

// LoadSettings loads the service's settings from a file. For the package's file it first sets the
// environment of the package's unit.
func LoadSettings(file string, overrides map[string]any) (service.Config, error) {
	unread := useEnvironment(file)
	cfg, err := service.Load(file, overrides)
	if err != nil {
		err = errors.Join(err, unread)
	}
	return cfg, err
}

// whichService returns the service's address and its data directory. It takes them from the flags,
// or else from the settings file, or else from the environment.
func whichService(cmd *cobra.Command) (url, data string, err error) {
	url, _ = cmd.Flags().GetString("url")
	data, _ = cmd.Flags().GetString("data")
	file := SettingsFile(cmd)
	if file == "" {
		return url, data, nil
	}
	cfg, err := LoadSettings(file, nil)
	if err != nil {
		return "", "", err
	}
	if !cmd.Flags().Changed("url") {
		url = cfg.URL()
	}
	if !cmd.Flags().Changed("data") {
		data = cfg.Data
	}
	return url, data, nil
}

// action is the work of a command that calls a service.
type action func(cmd *cobra.Command, c *client.Client, args []string) error

// AsOperator returns a command's function that calls run with an operator's client of the service.
func AsOperator(run action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		address, data, err := whichService(cmd)
		if err != nil {
			return err
		}
		var token, password string
		name, _ := cmd.Flags().GetString("operator")
		if name != "" {
			if password = os.Getenv("SHEAF_OPERATOR_PASSWORD"); password == "" {
				return fmt.Errorf("no password of operator %s: set SHEAF_OPERATOR_PASSWORD", name)
			}
		} else {
			given, _ := cmd.Flags().GetString("token")
			if token = cmp.Or(given, os.Getenv("SHEAF_TOKEN")); token == "" {
				if token, err = service.ReadToken(data); err != nil {
					return fmt.Errorf("no operators' token: %w; give the service's --data directory or --config file, or --token", err)
				}
			}
		}
		c, err := client.Operator(address, token)
		if err != nil {
			return fmt.Errorf("--url: %w", err)
		}
		c.User, c.Password = name, password
		return Explain(run(cmd, c, args))
	}
}

// Explain adds advice to an error that says that the service cannot be reached.
func Explain(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("the service does not answer: %w; is `sheaf serve` running there?", err)
	}
	return err
}

// asks returns a command that asks for an operation. Its arguments are the variables of the
// operation's path. show writes the answer for people; nil: nothing is written.
func asks[In, Out any](use, short string, op route.Op[In, Out], show func(w io.Writer, answer Out)) *cobra.Command {
	return asking(&cobra.Command{Use: use, Short: short}, op, new(In), "", show)
}

// asking makes cmd ask for an operation, as asks does. fields are the fields of the request that
// are flags: see commandline.Flags. The command's PreRunE sets the request's other fields.
func asking[In, Out any](cmd *cobra.Command, op route.Op[In, Out], in *In, fields string, show func(w io.Writer, answer Out)) *cobra.Command {
	commandline.Flags(cmd, in, fields)
	cmd.RunE = asCaller(func(cmd *cobra.Command, c *client.Client, args []string) error {
		op.Name(in, args)
		if show == nil {
			return tell(cmd, c, op, *in)
		}
		return ask(cmd, c, op, *in, show)
	})
	return cmd
}

// asCaller is AsOperator or, if the command has no flags for operators, asConsumer.
func asCaller(run action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Lookup("operator") == nil {
			return asConsumer(run)(cmd, args)
		}
		return AsOperator(run)(cmd, args)
	}
}

// each makes cmd ask for an operation on each of its arguments. It goes on after an error, and
// returns all errors.
func each(cmd *cobra.Command, op route.Op[string, route.None]) *cobra.Command {
	cmd.RunE = asCaller(func(cmd *cobra.Command, c *client.Client, args []string) error {
		var errs []error
		for _, name := range args {
			if err := tell(cmd, c, op, name); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
		return errors.Join(errs...)
	})
	return cmd
}

// tell asks for an operation, and shows no answer.
func tell[In, Out any](cmd *cobra.Command, c *client.Client, op route.Op[In, Out], in In) error {
	_, err := client.Call(cmd.Context(), c, op, in)
	return err
}

// ask asks for an operation, and shows the answer.
func ask[In, Out any](cmd *cobra.Command, c *client.Client, op route.Op[In, Out], in In, text func(w io.Writer, answer Out)) error {
	answer, err := client.Call(cmd.Context(), c, op, in)
	if err != nil {
		return err
	}
	return Show(cmd, answer, func(w io.Writer) { text(w, answer) })
}

// Show prints v as JSON if --json is given, and otherwise the output of text. It escapes control
// characters in that output, because names may come from the web.
func Show(cmd *cobra.Command, v any, text func(w io.Writer)) error {
	var b bytes.Buffer
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		e := json.NewEncoder(&b)
		e.SetIndent("", "  ")
		if err := e.Encode(v); err != nil {
			return err
		}
		_, err := b.WriteTo(cmd.OutOrStdout())
		return err
	}
	text(&b)
	_, err := b.WriteTo(display.NewHarmlessWriter(cmd.OutOrStdout()))
	return err
}

// Table writes a list in aligned columns. The names of the columns in head are separated by tabs.
// Control characters in cells are escaped: a line feed in a name must not make a line of its own.
func Table[T any](w io.Writer, head string, list []T, row func(T) []any) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if head != "" {
		fmt.Fprintln(tw, head)
	}
	for _, one := range list {
		var cells []string
		for _, cell := range row(one) {
			cells = append(cells, display.Harmless(fmt.Sprint(cell)))
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	tw.Flush()
}

// facts writes names and values. It leaves out names without a value.
func facts(w io.Writer, list [][2]string) {
	list = slices.DeleteFunc(list, func(f [2]string) bool { return f[1] == "" })
	Table(w, "", list, func(f [2]string) []any { return []any{f[0], f[1]} })
}

// Moment formats a time in the local zone, and the zero time as "-".
func Moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// SettingsFlags are the flags of commands that work with the service's own settings.
type SettingsFlags struct {
	config, data string
	Set          []string
	Packaged     bool // without a file and a directory, use the package's settings
}

func (f *SettingsFlags) Register(cmd *cobra.Command) {
	file := "the service's settings file (YAML); see deploy/sheaf.yaml"
	if f.Packaged {
		file += " (default " + PackagedConfig + ", if it can be read and no --data is given)"
	}
	cmd.Flags().StringVar(&f.config, "config", "", file)
	cmd.Flags().StringVar(&f.data, "data", "", "the service's data directory (setting data)")
	cmd.Flags().StringArrayVar(&f.Set, "set", nil, "one setting, such as --set store.kind=s3; may be given several times")
}

// WithSettings makes cmd call run with the service's settings: the package's, unless flags or
// SHEAF_DATA name others. It adds a flag for JSON.
func WithSettings(cmd *cobra.Command, run func(cmd *cobra.Command, cfg service.Config, args []string) error) *cobra.Command {
	settings := SettingsFlags{Packaged: true}
	settings.Register(cmd)
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := settings.Load()
		if err != nil {
			return err
		}
		return run(cmd, cfg, args)
	}
	return cmd
}

// Load loads the settings. --data and --set override the file and the environment.
func (f *SettingsFlags) Load() (service.Config, error) {
	overrides, err := SplitSettings(f.Set)
	if err != nil {
		return service.Config{}, err
	}
	if f.data != "" {
		overrides["data"] = f.data
	}
	file := f.config
	if file == "" && f.data == "" && f.Packaged && os.Getenv("SHEAF_DATA") == "" {
		file = packagedSettings()
	}
	return LoadSettings(file, overrides)
}

// SplitSettings parses the values of --set into keys and values.
func SplitSettings(set []string) (map[string]any, error) {
	m := map[string]any{}
	for _, s := range set {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q: want KEY=VALUE, such as publish.window=always", s)
		}
		m[key] = value
	}
	return m, nil
}

// Paths of an installation by packages.
const (
	PackagedConfig = "/etc/sheaf/sheaf.yaml"
	PackagedData   = "/var/lib/sheaf"
)

// packagedSettings returns the package's settings file, or "" if this user can read no such file.
func packagedSettings() string {
	f, err := os.Open(PackagedConfig)
	if err != nil {
		return ""
	}
	f.Close()
	return PackagedConfig
}

// useEnvironment sets the variables that the package's unit has and this process lacks. So a
// command has all settings of the service: the database's address and the store's keys may stand
// only in the unit's environment. If the settings file is not in the package's directory,
// useEnvironment does nothing. The error names a file that this user may not read.
func useEnvironment(config string) error {
	dir, name := filepath.Split(config)
	if filepath.Clean(dir) != filepath.Dir(PackagedConfig) {
		return nil
	}
	var all error
	for _, file := range []string{strings.TrimSuffix(name, ".yaml") + ".environment", "environment"} { // the first takes precedence
		variables, err := settings.ReadEnvironment(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("the service's environment: %w", err))
		}
		for name, value := range variables {
			if _, given := os.LookupEnv(name); !given {
				all = errors.Join(all, os.Setenv(name, value))
			}
		}
	}
	return all
}

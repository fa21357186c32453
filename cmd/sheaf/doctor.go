package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/display"
	"sheaf/internal/metrics"
	"sheaf/internal/settings"
	"sheaf/serve/client"
)

func doctorCommand() *cobra.Command {
	var out, log string
	cmd := admin.OperatorFlags(&cobra.Command{
		Use:   "doctor",
		Short: "Collect diagnostics for somebody who helps: health, versions, settings, queues, leases, disks, last errors",
		Long: `Collect diagnostics in one text: versions, settings without secrets, health,
buffers, robots, running transfers, metrics (leases and disks are among them) and the warnings and
errors of the log. In place of a part that cannot be collected it gives the reason. The text contains
names of hosts and robots, and addresses: read it before you give it away.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := gather(cmd, args, log)
			if out == "" {
				_, err := cmd.OutOrStdout().Write(text)
				return err
			}
			f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = f.Write(text)
			return errors.Join(err, f.Close())
		},
	})
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write, which must not exist (default: print it)")
	cmd.Flags().StringVar(&log, "log", "", "file with the service's log (default: the journal of the unit sheaf, if there is one)")
	return cmd
}

// gather returns all diagnostics. It never fails: in place of a section that it cannot get, it
// gives the reason.
func gather(cmd *cobra.Command, args []string, log string) []byte {
	var b bytes.Buffer
	section := func(title string, write func(w io.Writer) error) {
		fmt.Fprintf(&b, "\n== %s\n", title)
		if err := write(&b); err != nil {
			fmt.Fprintf(&b, "not to be had: %v\n", err)
		}
	}
	fmt.Fprintf(&b, "sheaf %s, %s, %s/%s, %s\n", service.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().UTC().Format(time.RFC3339))
	file := admin.SettingsFile(cmd)
	cfg, settingsErr := admin.LoadSettings(file, nil)
	lines, secrets := settings.Show(&cfg)
	if token, err := service.ReadToken(cfg.Data); err == nil { // the log may contain the token, even if no service is asked
		secrets = append(secrets, token)
	}
	section("settings", func(w io.Writer) error {
		fmt.Fprintf(w, "of the file %s and the variables %s\n%s\n", cmp.Or(file, "(none)"), strings.Join(variables(), " "), strings.Join(lines, "\n"))
		return settingsErr
	})
	section("service", func(w io.Writer) error {
		return admin.AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			secrets = append(secrets, c.Token, c.Password)
			fmt.Fprintln(w, c.URL)
			for _, path := range []string{api.PathHealth, api.PathAdminBatches, api.PathAdminRobots, api.PathTransfers + "?running=true"} {
				section(path, func(w io.Writer) error { return getAny(cmd, c, path, w) })
			}
			return nil
		})(cmd, args)
	})
	section("metrics", func(w io.Writer) error { return sheafMetrics(cmd, cfg.Observe.Metrics, w) })
	section("warnings and errors of the log, the last "+fmt.Sprint(logLines), func(w io.Writer) error { return logTail(cmd, log, w) })
	return withoutSecrets(display.HarmlessLines(b.String()), secrets)
}

// variables returns the names of the SHEAF_ and AWS_ variables in the environment, sorted.
func variables() (names []string) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "SHEAF_") || strings.HasPrefix(name, "AWS_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// getAny writes the body of an answer. For health any status will do: health answers 503 when its
// text matters most.
func getAny(cmd *cobra.Command, c *client.Client, path string, w io.Writer) error {
	if path != api.PathHealth {
		return c.Get(cmd.Context(), path, w)
	}
	r, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, c.URL.JoinPath(path).String(), nil)
	if err != nil {
		return err
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return admin.Explain(err)
	}
	defer answer.Body.Close()
	_, err = io.Copy(w, answer.Body)
	return err
}

// sheafMetrics writes the metrics, without the descriptions.
func sheafMetrics(cmd *cobra.Command, address string, w io.Writer) error {
	if address == "" {
		return errors.New("setting metrics is empty")
	}
	var all bytes.Buffer
	c := client.Client{URL: &url.URL{Scheme: "http", Host: address}, HTTP: client.Within(time.Minute)}
	err := c.Get(cmd.Context(), metrics.Path, &all)
	for line := range strings.Lines(all.String()) {
		if !strings.HasPrefix(line, "#") {
			io.WriteString(w, line)
		}
	}
	return err
}

// logLines is how many warnings and errors of the log are shown at most.
const logLines = 300

var grave = regexp.MustCompile(`level=(WARN|ERROR)|"level":"(WARN|ERROR)"|panic|fatal`)

// logTail writes the last warnings and errors of a log file, or of the unit's journal.
func logTail(cmd *cobra.Command, file string, w io.Writer) error {
	var from io.ReadCloser
	var err error
	if file != "" {
		from, err = os.Open(file)
	} else {
		journal := exec.CommandContext(cmd.Context(), "journalctl", "--unit=sheaf", "--lines=20000", "--no-pager", "--quiet")
		if from, err = journal.StdoutPipe(); err == nil {
			if err = journal.Start(); err == nil {
				defer journal.Wait()
			}
		}
	}
	if err != nil {
		return err
	}
	defer from.Close()
	var last []string
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if grave.MatchString(lines.Text()) {
			last = append(last[max(0, len(last)-logLines+1):], lines.Text())
		}
	}
	fmt.Fprintln(w, strings.Join(last, "\n"))
	return lines.Err()
}

// shortSecret is the length below which a secret is not removed, because it would be found
// everywhere.
const shortSecret = 4

var urlPassword = regexp.MustCompile(`://[^/\s:@"]*:[^/\s@"]+@`)

// withoutSecrets replaces passwords in URLs and the values of secrets, except very short secrets.
func withoutSecrets(text string, secrets []string) []byte {
	for _, secret := range secrets {
		if len(secret) >= shortSecret {
			text = strings.ReplaceAll(text, secret, "(secret)")
		}
	}
	return []byte(urlPassword.ReplaceAllString(text, "://(secret)@"))
}

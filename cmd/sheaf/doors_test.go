package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// The help of a command, which people paste into reports, has no secret of the environment.
func TestHelpHasNoSecrets(t *testing.T) {
	t.Setenv("SHEAF_TOKEN", "the-token")
	t.Setenv("SHEAF_OPERATOR_PASSWORD", "the-password")
	for _, command := range []string{"robot ls", "audit", "operator password", "mirror", "serve", "setup"} {
		var out bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append(strings.Fields(command), "--help"))
		testkit.Must(t, root.ExecuteContext(t.Context()))
		if strings.Contains(out.String(), "the-token") || strings.Contains(out.String(), "the-password") {
			t.Errorf("sheaf %s --help prints a secret:\n%s", command, out.String())
		}
	}
}

// A password may come from standard input, where the list of processes does not show it.
func TestPasswordFromStandardInput(t *testing.T) {
	c := startService(t, nil)
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetIn(strings.NewReader("from standard input\nsomething else\n"))
	root.SetArgs([]string{"account", "add", "alice", "--domain", "jp", "--password", "-", "--url", c.url, "--data", c.data})
	testkit.Must(t, root.ExecuteContext(t.Context()))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/v1/jobs", nil)
	testkit.Must(t, err)
	r.SetBasicAuth("alice", "from standard input")
	resp, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("alice gets %s", resp.Status)
	}
	root.SetIn(strings.NewReader(""))
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--password -") {
		t.Errorf("no password on standard input: %v", err)
	}
}

// A log-in name with a line feed makes no line of its own in what `sheaf audit` prints.
func TestAuditLinesAreNotForged(t *testing.T) {
	c := startService(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/v1/admin/robots", nil)
	testkit.Must(t, err)
	r.SetBasicAuth("eve\n2026-11-21 00:00:00  operator root", "wrong")
	resp, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	testkit.Must(t, err)
	resp.Body.Close()
	// The service writes log-ins of programs without letting them wait for it.
	testkit.Eventually(t, "the failed log-in is in the log, as one line", func() error {
		out, err := c.try("audit", "--act", "login", "--outcome", "failed")
		if err == nil && (!strings.Contains(out, `eve\n2026-11-21`) || strings.Count(strings.TrimSpace(out), "\n") != 1) {
			err = fmt.Errorf("the log is printed as:\n%s", out)
		}
		return err
	})
}

// What a client claims in Host is in no answer, since a cache might keep that for others.
func TestHostIsNotReflected(t *testing.T) {
	c := startService(t, nil)
	for _, accept := range []string{"application/json", "text/html"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/", nil)
		testkit.Must(t, err)
		r.Host = "evil.example"
		r.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		testkit.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || bytes.Contains(body, []byte("evil.example")) {
			t.Errorf("%s: %s\n%s", accept, resp.Status, body)
		}
	}
}

// A request with two lengths is the last one of its connection: a proxy in front may see another
// end of it than the service does.
func TestTwoLengthsCloseTheConnection(t *testing.T) {
	c := startService(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	testkit.Must(t, err)
	defer conn.Close()
	testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
	_, err = io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: "+strings.TrimPrefix(c.url, "http://")+
		"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Must(t, err)
	answers, err := io.ReadAll(conn)
	testkit.Must(t, err)
	if n := bytes.Count(answers, []byte("HTTP/1.1 ")); n != 1 || !bytes.Contains(answers, []byte("Connection: close")) {
		t.Errorf("%d answers:\n%s", n, answers)
	}
}

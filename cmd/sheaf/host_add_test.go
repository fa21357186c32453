package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/test/servicetest"
)

// A list of hosts from standard input may be longer than one request can be. After a mistake the
// message says which part was refused, and the parts before it are entered.
func TestHostAddOfALongList(t *testing.T) {
	testkit.Slow(t)
	s := servicetest.Start(t, servicetest.Quiet())
	run := func(list string) (string, string, error) {
		cmd := rootCommand()
		var out, said strings.Builder
		cmd.SetIn(strings.NewReader(list))
		cmd.SetOut(&out)
		cmd.SetErr(&said)
		cmd.SetArgs([]string{"host", "add", "-", "--url", s.At.HTTP, "--data", s.Data})
		err := cmd.ExecuteContext(t.Context())
		return out.String(), said.String(), err
	}
	var list strings.Builder
	const hosts = 10_000 + 7 // seven more than a part has
	for n := range hosts {   // addresses: nothing has to look them up
		fmt.Fprintf(&list, "http://127.%d.%d.%d/%s\n", 1+n>>16, n>>8&255, n&255, strings.Repeat("x", 30))
	}
	out, said, err := run(list.String())
	testkit.Must(t, err)
	if want := fmt.Sprintf("%d hosts added, 0 known before\n", hosts); out != want || !strings.Contains(said, "10000 URLs entered") {
		t.Errorf("output %q and messages %q; want %q", out, said, want)
	}
	_, _, err = run(list.String() + "ftp://127.0.0.1/")
	if err == nil || !strings.Contains(err.Error(), "URLs 10001 to 10008") || !strings.Contains(err.Error(), "hosts[7]") {
		t.Errorf("a list with a mistake: %v", err)
	}
	var page manager.HostsResponse
	s.Operate(http.MethodGet, api.PathAdminHosts+"?after=127.2.&limit=1", nil, &page)
	if len(page.Hosts) > 0 {
		t.Errorf("hosts after the list: %v", page.Hosts)
	}
}

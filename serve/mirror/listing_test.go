package mirror

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"sheaf/internal/testkit"
)

// A service whose listing does not end takes no more than some memory of a mirror.
func TestListingWithoutEnd(t *testing.T) {
	control, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer control.Close()
	data, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer data.Close()
	var serving sync.WaitGroup
	defer serving.Wait()
	sent := 0
	serving.Go(func() {
		c, err := control.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "220 \r\n")
		for in := bufio.NewScanner(c); in.Scan(); {
			switch command, _, _ := strings.Cut(in.Text(), " "); command {
			case "EPSV":
				fmt.Fprintf(c, "229 (|||%d|)\r\n", data.Addr().(*net.TCPAddr).Port)
			case "NLST":
				fmt.Fprint(c, "150 \r\n")
				to, err := data.Accept()
				for line := strings.Repeat("20261121\r\n", 1000); err == nil && sent < 64<<20; sent += len(line) {
					_, err = io.WriteString(to, line)
				}
				to.Close()
				fmt.Fprint(c, "226 \r\n")
			case "USER":
				fmt.Fprint(c, "230 \r\n")
			case "TYPE", "QUIT":
				fmt.Fprint(c, "200 \r\n")
			default:
				fmt.Fprint(c, "500 \r\n")
			}
		}
	})
	r := newFTP(t.Context(), &url.URL{Scheme: "ftp", Host: control.Addr().String()}, "alice", "alice", nil)
	defer r.close()
	names, err := r.folders(t.Context(), "/current")
	if err == nil || !strings.Contains(err.Error(), "more than") || len(names) > 0 {
		t.Errorf("%d names are listed, %v", len(names), err)
	}
}

package transfers_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
)

// Transfers under way are listed with their bytes and time so far, until they end.
func TestRunning(t *testing.T) {
	t.Parallel()
	var running transfers.Running
	moved := int64(7)
	now := time.Now()
	ended := running.Begin(transfers.Transfer{At: now.Add(-2 * time.Second), Direction: transfers.Download, Protocol: "ftp", Who: "jp", Name: "/a", Acknowledged: true},
		func() int64 { return moved })
	running.Begin(transfers.Transfer{At: now.Add(-time.Second), Direction: transfers.Upload, Protocol: "http", Who: "r1", Name: "b"}, func() int64 { return 1 })
	log := table10(t)
	list := func(f transfers.Filter) []transfers.TransferLine {
		t.Helper()
		f.Limit = 100
		doc, err := log.Document(t.Context(), f, &running)
		testkit.Must(t, err)
		return doc.Running
	}
	all := list(transfers.Filter{})
	if len(all) != 2 || all[0].Name != "/a" || all[0].Bytes != 7 || all[0].Seconds < 2 || all[1].Name != "b" {
		t.Fatalf("under way: %+v", all)
	}
	if of := list(transfers.Filter{Who: "r1"}); len(of) != 1 || of[0].Who != "r1" {
		t.Errorf("under way of r1: %+v", of)
	}
	var text bytes.Buffer
	if err := transfers.WriteRunning(&text, all); err != nil || !strings.Contains(text.String(), "ftp download") || !strings.Contains(text.String(), "client") {
		t.Errorf("%v\n%s", err, text.String())
	}
	ended()
	if left := list(transfers.Filter{Direction: transfers.Download}); len(left) != 0 {
		t.Errorf("it has ended: %+v", left)
	}
}

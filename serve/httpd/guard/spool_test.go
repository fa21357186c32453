package guard

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"sheaf/internal/problem"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Readers who take their long answers slowly have a bounded number of files, and so a bounded part
// of the disk. Short answers take none.
func TestLongAnswersAreBounded(t *testing.T) {
	limits := NewLimits()
	begin := func(name string, bytes int) (*Spool, error) {
		s := limits.Spool(httptest.NewRequest("GET", "/", nil), &account.Account{Name: name}, false)
		_, err := s.Write(make([]byte, bytes))
		return s, err
	}
	var held []*Spool
	var refused *problem.Error
	for range 100 {
		s, err := begin("jp", SpoolMemory+1)
		if errors.As(err, &refused) {
			s.Close()
			break
		}
		testkit.Must(t, err)
		held = append(held, s)
	}
	if len(held) != 16 || refused == nil || refused.Status != http.StatusTooManyRequests {
		t.Errorf("an account has %d long answers on their way, then %v", len(held), refused)
	}
	for name, bytes := range map[string]int{"jp": SpoolMemory, "keio": SpoolMemory + 1} {
		s, err := begin(name, bytes)
		testkit.Must(t, errors.Join(err, s.Close()))
	}
	for _, s := range held {
		testkit.Must(t, s.Close())
	}
	s, err := begin("jp", SpoolMemory+1)
	testkit.Must(t, errors.Join(err, s.Close()))
}

// A full disk is no fault of a search: its reader is told to come again.
func TestLongAnswerOnAFullDisk(t *testing.T) {
	disk := testkit.SmallDisk(t, "size=512k,mode=1777")
	if disk == "" {
		return
	}
	t.Setenv("TMPDIR", disk)
	s := NewSpool(false, nil)
	defer s.Close()
	var err error
	for n := 0; n < 100 && err == nil; n++ {
		_, err = s.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, library.ErrNoSpace) {
		t.Errorf("the error is %v", err)
	}
}

package passwords_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/passwords"
)

func try(name, secret, remote string) passwords.Try {
	return passwords.Try{Realm: passwords.Account, Name: name, Secret: secret, Remote: remote}
}

// check is a try of which the secret is right where it is "right".
func check(t *testing.T, l *passwords.Limiter, try passwords.Try) (ok bool, wait time.Duration) {
	t.Helper()
	ok, err := l.Check(t.Context(), try, func(context.Context) (bool, error) { return try.Secret == "right", nil })
	var tooMany *passwords.TooMany
	switch {
	case errors.As(err, &tooMany):
		return false, tooMany.Wait
	case err != nil:
		t.Fatal(err)
	}
	return ok, 0
}

const here, there = "192.0.2.1:7", "192.0.2.2:7"

// However many guesses come at the same moment, no more are looked at than are free.
func TestParallelGuesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := passwords.NewLimiter(slog.New(slog.DiscardHandler))
		var mu sync.Mutex
		looked, refused := 0, 0
		for i := range 120 {
			go func() {
				_, err := l.Check(t.Context(), try("jp", fmt.Sprint(i), here), func(context.Context) (bool, error) {
					mu.Lock()
					looked++
					mu.Unlock()
					time.Sleep(time.Millisecond)
					return false, nil
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused++
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if looked != passwords.Burst || refused != 120-passwords.Burst {
			t.Errorf("%d guesses were looked at and %d refused, want %d and %d", looked, refused, passwords.Burst, 120-passwords.Burst)
		}
	})
}

// Somebody who guesses keeps nobody out: not the account from elsewhere, not others from the same
// address, and not the account from the same address if its password was right there or elsewhere.
func TestNobodyIsLockedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := passwords.NewLimiter(slog.New(slog.DiscardHandler))
		for i := range passwords.Burst {
			if ok, wait := check(t, l, try("jp", fmt.Sprint(i), here)); ok || wait > 0 {
				t.Fatalf("guess %d: %v, waits %v", i, ok, wait)
			}
		}
		if _, wait := check(t, l, try("jp", "right", here)); wait <= 0 || wait > passwords.Every {
			t.Errorf("a guess too many waits %v", wait)
		}
		for _, c := range []passwords.Try{try("jp", "right", there), try("keio", "right", here), try("jp", "right", here)} {
			if ok, wait := check(t, l, c); !ok {
				t.Errorf("%s from %s: waits %v", c.Name, c.Remote, wait)
			}
		}
		time.Sleep(passwords.Every)
		if _, wait := check(t, l, try("jp", "wrong", here)); wait > 0 {
			t.Errorf("after %v it waits %v more", passwords.Every, wait)
		}
	})
}

// Whoever tries one password with many names comes to an end too, and an IPv6 network is one
// address.
func TestManyNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := passwords.NewLimiter(slog.New(slog.DiscardHandler))
		check(t, l, try("keio", "right", "[2001:db8::1]:7"))
		looked := 0
		for i := range 2 * passwords.AddressBurst {
			if _, wait := check(t, l, try(fmt.Sprint(i), "123456", fmt.Sprintf("[2001:db8::%x]:7", i))); wait == 0 {
				looked++
			}
		}
		if looked != passwords.AddressBurst {
			t.Errorf("%d names were tried, want %d", looked, passwords.AddressBurst)
		}
		if ok, _ := check(t, l, try("keio", "right", "[2001:db8::1]:7")); !ok {
			t.Error("who has logged in before is kept out")
		}
	})
}

// What was found out of nothing does not count, and what is right does not either.
func TestOnlyWrongOnesCount(t *testing.T) {
	t.Parallel()
	l := passwords.NewLimiter(slog.New(slog.DiscardHandler))
	away := errors.New("away")
	for range 3 * passwords.Burst {
		if _, err := l.Check(t.Context(), try("jp", "a", here), func(context.Context) (bool, error) { return false, away }); err != away {
			t.Fatal(err)
		}
		if ok, _ := check(t, l, try("jp", "right", here)); !ok {
			t.Fatal("the right password is kept out")
		}
	}
}

// A password that was right and is no longer counts like every other.
func TestOldPassword(t *testing.T) {
	t.Parallel()
	l := passwords.NewLimiter(slog.New(slog.DiscardHandler))
	looked := 0
	for i := range 3 * passwords.Burst {
		l.Check(t.Context(), try("jp", "old", here), func(context.Context) (bool, error) {
			looked++
			return i == 0, nil
		})
	}
	if looked != 1+passwords.Burst {
		t.Errorf("it was looked at %d times, want %d", looked, 1+passwords.Burst)
	}
}

// The log has one line for each wrong password, with account and address, and never the password.
func TestLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	l := passwords.NewLimiter(slog.New(slog.NewTextHandler(&log, nil)))
	check(t, l, try("jp", "hunter2", here))
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "account=jp remote="+here) || strings.Contains(text, "hunter2") {
		t.Errorf("logged %s", text)
	}
	for range 100 {
		check(t, l, try("jp", "hunter2", here))
	}
	if n := strings.Count(log.String(), "\n"); n != passwords.Burst+1 {
		t.Errorf("%d lines, want one for each of %d guesses and one that more are not looked at", n, passwords.Burst)
	}
}

// One address has one turn at a time, whatever it sends, so that another waits for one of its
// checks.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := passwords.NewTurns(2)
		var order []string
		var mu sync.Mutex
		work := func(remote string) {
			done, err := turns.Wait(t.Context(), remote)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Second)
			mu.Lock()
			order = append(order, remote)
			mu.Unlock()
			done()
		}
		begun := time.Now()
		for range 20 {
			go work(here)
		}
		synctest.Wait()
		work(there)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("another address waited %v behind 20 checks", took-time.Second)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if len(order) != 21 {
			t.Errorf("%d checks ran", len(order))
		}
		full, _ := turns.Wait(t.Context(), here)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.Wait(ctx, here); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who goes gets %v", err)
		}
		full()
		if done, err := turns.Wait(t.Context(), here); err != nil {
			t.Error(err)
		} else {
			done()
		}
	})
}

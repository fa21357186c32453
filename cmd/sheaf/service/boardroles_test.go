package service

import (
	"net/http"
	"strings"
	"testing"

	"sheaf/internal/operators"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
)

// Viewers see the board's pages without a button that would be refused; workers see them all.
func TestViewersSeeNoButtons(t *testing.T) {
	s := newTestService(t)
	fillBoard(t, s, "")
	fillReaders(t, s, "")
	store, err := operators.NewStore(s.state.db, servetest.Cheap, nil)
	testkit.Must(t, err)
	const password = "long enough for them"
	for name, role := range map[string]operators.Role{"viewer": operators.Viewer, "worker": operators.Worker} {
		_, _, err := store.Add(t.Context(), operators.Operator{Name: name, Role: role}, password)
		testkit.Must(t, err)
		cookie, buttons := logIn(t, s, name, password, "/board/", "/board/"), 0
		for _, path := range append([]string{"/board/robots/robot", "/board/batches/b1"}, mapped(boardPages)...) {
			w := browse(s, http.MethodGet, path, "", "", nil, "Cookie", cookie)
			page := strings.NewReplacer(`method="post" action="/board/password"`, "", `method="post" action="/logout"`, "").Replace(w.Body.String()) // everybody's
			forms := strings.Count(page, `method="post"`)
			if buttons += forms; w.Code != http.StatusOK || role == operators.Viewer && forms > 0 {
				t.Errorf("%s for a %s: %d, %d forms", path, role, w.Code, forms)
			}
		}
		if role == operators.Worker && buttons < 5 {
			t.Errorf("workers see %d forms", buttons)
		}
	}
}

func mapped(m map[string]string) (all []string) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// A robot that is idle or was not heard of lately fetches no pages, whatever it did before.
func TestIdleRobotsHaveNoSpeed(t *testing.T) {
	s := newTestService(t)
	fillBoard(t, s, "")
	speeds := func() int {
		return strings.Count(browse(s, http.MethodGet, "/board/robots", "ops", s.OperatorToken(), nil).Body.String(), `>1.50</td>`)
	}
	if n := speeds(); n != 1 {
		t.Fatalf("%d robots collect 1.5 pages a second", n)
	}
	_, err := s.state.db.ExecContext(t.Context(), `UPDATE heartbeats SET phase = 'idle'`)
	testkit.Must(t, err)
	if n := speeds(); n != 0 {
		t.Errorf("%d idle robots collect 1.5 pages a second", n)
	}
}

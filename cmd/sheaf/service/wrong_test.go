package service

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/ui/board"
)

// What is wrong is the same at all places that tell it: the board in both languages, the API and
// the metrics. Before and after, each of them says that nothing is.
func TestWhatIsWrongIsToldEverywhere(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := metered(t, nil)
	list := func() map[string]board.Failure {
		w := browse(s, http.MethodGet, api.PathAdminWrong, "ops", s.OperatorToken(), nil)
		var answer board.WrongResponse
		testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &answer))
		found := make(map[string]board.Failure)
		for _, f := range answer.Wrong {
			found[f.Kind] = f
		}
		return found
	}
	page := func(language string) string {
		return browse(s, http.MethodGet, "/board/", "ops", s.OperatorToken(), nil, "Accept-Language", language).Body.String()
	}
	well := func(when string) {
		t.Helper()
		if found := list(); len(found) != 0 || !strings.Contains(page("en"), "Nothing is wrong.") {
			t.Errorf("%s: %v\n%s", when, found, page("en"))
		}
		for _, kind := range board.Kinds() {
			want(t, scrape(t, s), 0, "sheaf_wrong", "kind", kind)
		}
	}
	well("before")
	ms := time.Now().UnixMilli()
	for _, insert := range []string{
		`INSERT INTO robots (name, created, joined, seen, subscribed, secret_hash, service_key) SELECT 'waseda', 1, 1, ?1, 1, x'00', public FROM service_keys`,
		`INSERT INTO robot_troubles (robot, kind, detail, since) VALUES ('waseda', 'disk', '3 MB are free', ?1)`,
		`INSERT INTO robot_troubles (robot, kind, detail, since) VALUES ('waseda', 'clock', '2h0m0s behind', ?1)`,
		`INSERT INTO robot_troubles (robot, kind, detail, since) VALUES ('waseda', 'hosts', '9 of 10 hosts', ?1)`,
		`INSERT INTO robot_troubles (robot, kind, detail, since, ended) VALUES ('waseda', 'upload', 'is over', ?1, ?1)`,
	} {
		_, err := s.state.db.ExecContext(t.Context(), insert, ms)
		testkit.Must(t, err)
	}
	found, english, japanese := list(), page("en"), page("ja")
	for kind, says := range map[string][3]string{
		"robot-disk":  {"3 MB are free", "its disk is full", "ディスクが一杯です"},
		"robot-clock": {"2h0m0s behind", "its clock is wrong", "時計が狂っています"},
		"robot-hosts": {"9 of 10 hosts", "its hosts do not answer", "ホストが応答しません"},
	} {
		if f := found[kind]; !strings.Contains(f.Why, says[0]) || !strings.Contains(f.What, says[1]) || f.Since.UnixMilli() != ms {
			t.Errorf("%s: the API says %+v", kind, f)
		}
		if !strings.Contains(english, says[0]) || !strings.Contains(english, says[1]) || !strings.Contains(japanese, says[2]) {
			t.Errorf("%s is not on the board", kind)
		}
		want(t, scrape(t, s), 1, "sheaf_wrong", "kind", kind)
	}
	if len(found) != 3 || strings.Contains(english, "Nothing is wrong") {
		t.Errorf("wrong are %v", found)
	}
	_, err := s.state.db.ExecContext(t.Context(), `UPDATE robot_troubles SET ended = ?`, ms)
	testkit.Must(t, err)
	well("after")
}

package yesterday

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"sheaf/internal/testkit"
)

// answer is the service's answer to a question, as answers.json has it.
type answer struct {
	Who  string          `json:"who"` // account; empty: the operator
	Path string          `json:"path"`
	JSON json.RawMessage `json:"json,omitempty"`
	Text []string        `json:"text,omitempty"` // lines, of an answer that is no JSON
}

func readAnswers(name string) (all []answer, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(data, &all)
}

// passing are the fields that describe the present, or depend on the time: when a robot was last
// heard of, how much an account has downloaded today, how long a batch has waited, what a watch has
// found in the last 30 days (older notices are deleted), which call failed and when it is tried
// again.
var passing = []string{"seen", "today", "oldest_seconds", "notices", "failing", "webhook_stopped"}

// lasting removes the passing fields from an answer.
func lasting(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range passing {
			delete(v, name)
		}
		for name := range v {
			v[name] = lasting(v[name])
		}
	case []any:
		for i := range v {
			v[i] = lasting(v[i])
		}
	}
	return v
}

// ask asks a question and returns the answer as answers.json keeps it.
func (h *installation) ask(who, path string) answer {
	h.Helper()
	data := h.get(who, path)
	a := answer{Who: who, Path: path}
	var v any
	if json.Unmarshal(data, &v) != nil {
		a.Text = strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
		return a
	}
	var err error
	a.JSON, err = json.Marshal(lasting(v))
	testkit.Must(h, err)
	return a
}

// sameAnswers asks again what the old program was asked.
func (h *installation) sameAnswers(want []answer) {
	h.Helper()
	for _, w := range want {
		got := h.ask(w.Who, w.Path)
		if w.JSON == nil {
			if !slices.Equal(got.Text, w.Text) {
				h.Errorf("%s %s:\n got %q\nwant %q", w.Who, w.Path, got.Text, w.Text)
			}
			continue
		}
		var is, was any
		testkit.Must(h, json.Unmarshal(got.JSON, &is))
		testkit.Must(h, json.Unmarshal(w.JSON, &was))
		for _, d := range differences("", is, was) {
			h.Errorf("%s %s: %s", w.Who, w.Path, d)
		}
	}
}

// differences returns where an answer is not what it was. New fields are no difference: clients
// ignore them.
func differences(at string, is, was any) (all []string) {
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			break
		}
		for name := range was {
			if value, ok := now[name]; ok {
				all = append(all, differences(at+"."+name, value, was[name])...)
			} else {
				all = append(all, fmt.Sprintf("%s.%s is missing, it was %v", at, name, was[name]))
			}
		}
		return all
	case []any:
		now, ok := is.([]any)
		if !ok || len(now) != len(was) {
			break
		}
		for i := range was {
			all = append(all, differences(fmt.Sprintf("%s[%d]", at, i), now[i], was[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(is, was) {
		all = append(all, fmt.Sprintf("%s is %v, it was %v", at, is, was))
	}
	return all
}

package polite

import (
	"errors"
	"testing"
)

func TestFromResponse(t *testing.T) {
	body := []byte("User-agent: *\nDisallow: /x\n")
	for _, tt := range []struct {
		status         int
		err            error
		notNow, allows bool
	}{
		{status: 200},
		{status: 204},
		{status: 206, notNow: true},
		{status: 302, allows: true},
		{status: 401, allows: true},
		{status: 403, allows: true},
		{status: 404, allows: true},
		{status: 429, notNow: true},
		{status: 500, notNow: true},
		{status: 503, notNow: true},
		{status: 100, notNow: true},
		{err: errors.New("connection refused"), notNow: true},
	} {
		v := FromResponse(tt.status, body, tt.err)
		if v.NotNow() != tt.notNow || v.Why == "" {
			t.Errorf("%d, %v: not now = %v, want %v", tt.status, tt.err, v.NotNow(), tt.notNow)
		}
		if !tt.notNow && v.Rules.Allowed("bot", "/x") != tt.allows {
			t.Errorf("%d: /x allowed = %v, want %v", tt.status, !tt.allows, tt.allows)
		}
	}
}

package service

import (
	"time"

	"sheaf/internal/settings"
)

// Login is the settings of how people log in with a browser.
type Login struct {
	Idle time.Duration `mapstructure:"idle"` // after which a session ends that is not used
	Life time.Duration `mapstructure:"life"` // after which every session ends
}

func (l *Login) check(is *settings.Checks) {
	is.Require(l.Idle >= time.Minute, "login.idle", l.Idle, "want at least 1m")
	is.Require(l.Life >= l.Idle, "login.life", l.Life, "want at least login.idle")
}

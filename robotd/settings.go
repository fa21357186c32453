package robotd

import (
	"fmt"
	"time"

	"sheaf/deploy"
	"sheaf/internal/preference"
	"sheaf/internal/settings"
	"sheaf/robotd/config"
)

// DefaultConfig returns the settings that hold where the operator gives none.
func DefaultConfig() config.Config {
	c := config.Config{
		Revisit: config.Revisit{QuickHours: true},
		Batch:   config.Batch{Level: 6},
		Network: config.Network{Relearn: time.Hour},
	}
	settings.Defaults(&c, deploy.Robotd)
	return c
}

// LoadConfig reads the settings from a YAML file (none if file is empty), the environment
// (ROBOTD_UPLOAD_POLL for upload.poll) and overrides by key, the later the stronger. It refuses
// unknown keys; Config.Check checks the values.
func LoadConfig(file string, overrides map[string]any) (config.Config, error) {
	cfg := DefaultConfig()
	err := settings.Load(&cfg, settings.Source{File: file, Prefix: "ROBOTD", Overrides: overrides})
	return cfg, err
}

// userAgent returns the User-Agent of a robot with the settings.
func userAgent(cfg *config.Config) string {
	return fmt.Sprintf("%s/%s (+%s)", preference.Robot, Version, cfg.Contact)
}

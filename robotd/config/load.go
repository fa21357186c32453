package config

import (
	"strings"
	"unicode"

	"sheaf/internal/settings"
)

// Load reads the settings from a YAML file (none if file is empty), the environment
// (ROBOTD_UPLOAD_POLL for upload.poll) and overrides by key, the later the stronger. It refuses
// unknown keys; Config.Check checks the values.
func Load(file string, overrides map[string]any) (Config, error) {
	cfg := Default()
	err := settings.Load(&cfg, settings.Source{File: file, Prefix: "ROBOTD", Overrides: overrides})
	return cfg, err
}

// SplitList splits a text at blanks and commas.
func SplitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

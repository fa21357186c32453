package deploy

import (
	"regexp"
	"strings"
	"testing"
)

// Each setting says what it does: beside it, or in the lines above it.
func TestSettingsAreExplained(t *testing.T) {
	leaf := regexp.MustCompile(`^ *[a-z_]+: +[^#\s]`)
	for file, text := range map[string]string{"sheaf.yaml": Sheaf, "robotd.yaml": Robotd} {
		settings, above := 0, ""
		for line := range strings.Lines(text) {
			if leaf.MatchString(line) {
				if settings++; !strings.Contains(line, "# ") && !strings.HasPrefix(above, "# ") {
					t.Errorf("%s does not say what this is: %s", file, line)
				}
			}
			above = line
		}
		if settings < 50 {
			t.Errorf("%s has %d settings", file, settings)
		}
	}
}

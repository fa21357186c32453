package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"sheaf/internal/testkit"
)

// Who copies a setting from a document gets one that there is. A setting that is gone would keep a
// program from starting.
func TestDocumentsNameSettings(t *testing.T) {
	known, sections := map[string]bool{}, map[string]bool{}
	for _, text := range []string{Sheaf, Robotd} {
		for _, key := range settingsIn(t, text).AllKeys() {
			for known[key] = true; strings.Contains(key, "."); known[key], sections[key] = true, true {
				key = key[:strings.LastIndex(key, ".")]
			}
		}
	}
	named, block := regexp.MustCompile("`([a-z]\\w*(?:\\.[a-z_]\\w*)+)`"), regexp.MustCompile("(?s)```\\w*\n(.*?)```")
	files, err := filepath.Glob("../docs/*.md")
	testkit.Must(t, err)
	checked := 0
	for _, file := range append(files, "../README.md", "../SECURITY.md") {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		var keys []string
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(m[1], ".go") {
				keys = append(keys, m[1])
			}
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			keys = append(keys, settingsIn(t, m[1]).AllKeys()...) // none if the block is something else
		}
		for _, key := range keys {
			section, _, _ := strings.Cut(key, ".")
			if sections[section] {
				if checked++; !known[key] {
					t.Errorf("%s names %s, which is no setting", file, key)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("the documents name %d settings", checked)
	}
}

func settingsIn(t *testing.T, text string) *viper.Viper {
	t.Helper()
	v := viper.New()
	v.SetConfigType("yaml")
	_ = v.ReadConfig(strings.NewReader(text))
	return v
}

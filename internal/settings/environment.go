package settings

import (
	"bufio"
	"os"
	"strings"
)

// ReadEnvironment reads a file as systemd's EnvironmentFile= does. Each line is NAME=VALUE; the
// value may be in quotation marks. Lines that begin with # or ; are comments.
func ReadEnvironment(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		all[strings.TrimSpace(name)] = value
	}
	return all, lines.Err()
}

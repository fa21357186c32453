package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"sheaf/internal/settings"
)

// delimiter joins the keys of nested settings. A dot cannot: it stands in the
// names of hosts.
const delimiter = "::"

// Load reads the settings from the file, which may be empty, and from the
// environment. Settings that are not known are refused.
func Load(file string) (Config, error) {
	cfg := Default()
	v := viper.NewWithOptions(viper.KeyDelimiter(delimiter), viper.EnvKeyReplacer(strings.NewReplacer(delimiter, "_")))
	v.SetEnvPrefix("ROBOTD")
	for _, key := range settings.Keys(reflect.TypeFor[Config](), delimiter) {
		if err := v.BindEnv(key); err != nil {
			return cfg, err
		}
	}
	if file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return cfg, fmt.Errorf("settings: %w", err)
		}
	}
	if err := settings.CheckKeys(v.AllKeys(), reflect.TypeFor[Config](), delimiter); err != nil {
		return cfg, err
	}
	err := v.UnmarshalExact(&cfg, viper.DecodeHook(mapstructure.ComposeDecodeHookFunc(
		parseDuration, parseHosts, parseList)))
	if err != nil {
		return cfg, fmt.Errorf("settings: %w", err)
	}
	return cfg, nil
}

// parseDuration reads a duration; its error shows the value, as the library's does not.
func parseDuration(from, to reflect.Type, data any) (any, error) {
	if from.Kind() != reflect.String || to != reflect.TypeFor[time.Duration]() {
		return data, nil
	}
	d, err := time.ParseDuration(data.(string))
	if err != nil {
		return nil, fmt.Errorf("%q is not a duration such as 20s", data)
	}
	return d, nil
}

// parseHosts reads network.hosts from the environment: "name=ip:port name=ip".
func parseHosts(from, to reflect.Type, data any) (any, error) {
	if from.Kind() != reflect.String || to != reflect.TypeFor[map[string]string]() {
		return data, nil
	}
	hosts := make(map[string]string)
	for pair := range strings.FieldsSeq(data.(string)) {
		name, addr, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=ip or name=ip:port", pair)
		}
		hosts[name] = addr
	}
	return hosts, nil
}

// parseList reads a list that is written as one text, as in the environment.
func parseList(from, to reflect.Type, data any) (any, error) {
	if from.Kind() != reflect.String || to != reflect.TypeFor[[]string]() {
		return data, nil
	}
	return SplitList(data.(string)), nil
}

// SplitList divides a text at blanks and commas.
func SplitList(text string) []string {
	items := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	return append([]string{}, items...)
}

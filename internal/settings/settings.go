// Package settings is what both programs, sheaf and robotd, do alike when they read their settings.
package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Keys returns the keys of a struct of settings: the names in its mapstructure tags, those of nested
// structs joined by the delimiter.
func Keys(t reflect.Type, delimiter string) []string {
	return fields(t, delimiter, func(reflect.Kind) bool { return true })
}

// fields returns the keys of the fields that are no structs and whose kind is wanted.
func fields(t reflect.Type, delimiter string, wanted func(reflect.Kind) bool) []string {
	var all []string
	for i := range t.NumField() {
		f := t.Field(i)
		key, squash := strings.CutSuffix(f.Tag.Get("mapstructure"), ",squash")
		if f.Type.Kind() != reflect.Struct {
			if wanted(f.Type.Kind()) {
				all = append(all, key)
			}
			continue
		}
		if !squash {
			key += delimiter
		}
		for _, below := range fields(f.Type, delimiter, wanted) {
			all = append(all, key+below)
		}
	}
	return all
}

// CheckKeys returns an error that names each given key that a struct of settings does not have, with
// the key that was probably meant. What stands below a key that is a map is the map's.
func CheckKeys(given []string, t reflect.Type, delimiter string) error {
	known := Keys(t, delimiter)
	maps := fields(t, delimiter, func(k reflect.Kind) bool { return k == reflect.Map })
	var errs []error
	for _, key := range slices.Sorted(slices.Values(given)) {
		ok := slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, key) }) ||
			slices.ContainsFunc(maps, func(k string) bool { return strings.HasPrefix(strings.ToLower(key), k+delimiter) })
		if !ok {
			errs = append(errs, fmt.Errorf("settings: there is no key %s%s", strings.ReplaceAll(key, delimiter, "."),
				didYouMean(key, known, delimiter)))
		}
	}
	return errors.Join(errs...)
}

// didYouMean names the known key that is nearest to the given one, if one is near.
func didYouMean(given string, known []string, delimiter string) string {
	best, least := "", len(given)/5+2
	for _, k := range known {
		d := distance(strings.ToLower(given), k)
		if strings.HasSuffix(k, delimiter+given) { // its section was forgotten
			d = 1
		}
		if d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + strings.ReplaceAll(best, delimiter, ".") + "?"
}

// distance is the Levenshtein distance of a and b: how many bytes must be put in, taken out or
// changed to make one of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := min(row[j], row[j+1]) + 1
			if a[i] == b[j] {
				d = min(d, diagonal)
			} else {
				d = min(d, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

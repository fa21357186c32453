package service

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as 4096, 64KiB, 1MiB or 2GiB.
type Size int64

// ParseSize reads a size.
func ParseSize(text string) (Size, error) {
	number, unit := text, int64(1)
	for n, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = strings.TrimSpace(before), 1<<(10*(n+1))
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, fmt.Errorf("%q is no size, such as 4096, 64KiB or 256MiB", text)
	}
	return Size(n * unit), nil
}

// size reads sizes out of settings, and names the one that it cannot read.
func size(_, to reflect.Type, value any) (any, error) {
	text, ok := value.(string)
	if !ok || to != reflect.TypeFor[Size]() {
		return value, nil
	}
	return ParseSize(text)
}

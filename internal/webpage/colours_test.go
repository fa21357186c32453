package webpage_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// rgb is a colour in linear light, each part from 0 to 1.
type rgb [3]float64

func parseColour(hex string) (c rgb) {
	for i := range c {
		n, _ := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if c[i] = float64(n) / 255; c[i] <= 0.04045 {
			c[i] /= 12.92
		} else {
			c[i] = math.Pow((c[i]+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) times(m [3]rgb) (out rgb) {
	for i := range out {
		out[i] = min(1, max(0, m[i][0]*c[0]+m[i][1]*c[1]+m[i][2]*c[2]))
	}
	return out
}

// contrast is that of WCAG 2.2.
func contrast(a, b rgb) float64 {
	light := func(c rgb) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05 }
	return max(light(a), light(b)) / min(light(a), light(b))
}

// lab returns a colour in CIELAB (D65), where distances are about as large as they look.
func (c rgb) lab() (out rgb) {
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089)
	return rgb{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b rgb) float64 {
	a, b = a.lab(), b.lab()
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}

// sights are how colours look to people, by the matrices of Machado, Oliveira and Fernandes (2009)
// for complete colour blindness.
var sights = map[string][3]rgb{
	"full sight":   {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// The series of a chart can be told from the page and from one another in both themes, also by
// people who are colour-blind.
func TestSeriesCanBeToldApart(t *testing.T) {
	sheet, err := os.ReadFile("style.css")
	testkit.Must(t, err)
	themes := regexp.MustCompile(`:root\{[^}]*\}`).FindAllString(string(sheet), -1)
	if len(themes) != 2 {
		t.Fatalf("%d themes", len(themes))
	}
	for i, theme := range themes {
		colour := func(name string) rgb {
			_, rest, ok := strings.Cut(theme, "--"+name+":#")
			if !ok {
				t.Fatalf("theme %d has no %s", i, name)
			}
			if hex := rest[:strings.IndexAny(rest, ";}")]; len(hex) == 6 {
				return parseColour(hex)
			}
			return parseColour(rest[:1] + rest[:1] + rest[1:2] + rest[1:2] + rest[2:3] + rest[2:3])
		}
		for a := 1; a <= 6; a++ {
			one := fmt.Sprint("s", a)
			if c := contrast(colour(one), colour("paper")); c < 3 {
				t.Errorf("theme %d: %s has a contrast of %.1f to the page, less than 3", i, one, c)
			}
			for b := a + 1; b <= 6; b++ {
				other := fmt.Sprint("s", b)
				for who, m := range sights {
					if d := distance(colour(one).times(m), colour(other).times(m)); d < 18 {
						t.Errorf("theme %d, %s: %s and %s are %.0f apart, less than 18", i, who, one, other, d)
					}
				}
			}
		}
	}
}

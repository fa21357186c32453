package texts

import (
	"unicode"
)

// simHash returns a fingerprint of a text: texts that have much in common differ in few of its
// bits (Charikar 2002). Its features are all sequences of four letters or digits, in lower case. It
// is 0 if the text has fewer.
func simHash(text string) uint64 {
	var votes [64]int32
	var window uint64
	n := 0
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		window = window<<16 | uint64(uint16(unicode.ToLower(r)))
		if n++; n < 4 {
			continue
		}
		h := mix(window)
		for i := range votes {
			votes[i] += int32(h>>i&1)<<1 - 1
		}
	}
	var sum uint64
	for i, v := range votes {
		if v > 0 {
			sum |= 1 << i
		}
	}
	return sum
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

package account

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Cost is what argon2id spends on hashing a password. A stored hash carries its own cost, so that
// the cost of new ones may change.
type Cost struct {
	Memory uint32 // KiB
	Passes uint32 // over the memory
}

// DefaultCost is OWASP's first choice for servers on which many log in at once.
var DefaultCost = Cost{Memory: 19 << 10, Passes: 2}

const (
	hashThreads = 1
	hashSalt    = 16 // bytes
	hashKey     = 32 // bytes
)

// maxHashMemory bounds the memory, in KiB, that a stored hash may ask for.
const maxHashMemory = 256 << 10

// hash returns the PHC string to store for a password.
func (c Cost) hash(password string) string {
	salt := make([]byte, hashSalt)
	rand.Read(salt)
	return c.phc(salt, argon2.IDKey([]byte(password), salt, c.Passes, c.Memory, hashThreads, hashKey))
}

// decoy returns a PHC string for which no password is known. Checking a password against it takes
// as long as against a stored one.
func (c Cost) decoy() string {
	random := make([]byte, hashSalt+hashKey)
	rand.Read(random)
	return c.phc(random[:hashSalt], random[hashSalt:])
}

func (c Cost) phc(salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, c.Memory, c.Passes, hashThreads, b64(salt), b64(key))
}

// checkPassword reports whether password is the one that phc was made from.
func checkPassword(phc, password string) (bool, error) {
	fields := strings.Split(phc, "$")
	if len(fields) != 6 || fields[0] != "" || fields[1] != "argon2id" {
		return false, fmt.Errorf("stored password is no argon2id PHC string; set it again")
	}
	var version, memory, time, threads uint32
	if _, err := fmt.Sscanf(fields[2]+"$"+fields[3], "v=%d$m=%d,t=%d,p=%d", &version, &memory, &time, &threads); err != nil {
		return false, fmt.Errorf("stored password's cost %q cannot be read; set it again", fields[3])
	}
	if version != argon2.Version || memory > maxHashMemory || time < 1 || threads < 1 || threads > 255 {
		return false, fmt.Errorf("stored password's cost %q of version %d is out of bounds; set it again", fields[3], version)
	}
	salt, err := base64.RawStdEncoding.DecodeString(fields[4])
	if err != nil {
		return false, fmt.Errorf("stored password's salt: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(fields[5])
	if err != nil || len(want) == 0 {
		return false, fmt.Errorf("stored password's key cannot be read; set it again")
	}
	got := argon2.IDKey([]byte(password), salt, time, memory, uint8(threads), uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

// newPassword makes a password of 120 random bits, for an account that is given none.
func newPassword() string { return strings.ToLower(rand.Text())[:24] }

// Lengths of passwords that people choose, in characters.
const (
	LeastPassword = 10
	mostPassword  = 200
)

// CheckChosen returns an ErrInvalid that says why a password that somebody has chosen is too easy or
// too long. What operators give is their own affair.
func CheckChosen(account, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < LeastPassword:
		return fmt.Errorf("%w: a password needs at least %d characters", ErrInvalid, LeastPassword)
	case n > mostPassword:
		return fmt.Errorf("%w: a password has at most %d characters", ErrInvalid, mostPassword)
	case strings.EqualFold(strings.Trim(password, "0123456789!. "), account), strings.Count(password, password[:1]) == len(password):
		return fmt.Errorf("%w: this password is the first that somebody would guess", ErrInvalid)
	}
	return checkNew(account, password)
}

// checkNew returns an ErrInvalid if a text cannot be an account's password.
func checkNew(account, password string) error {
	switch {
	case password == "":
		return fmt.Errorf("%w: %s: the password is empty", ErrInvalid, account)
	case tokenForm.MatchString(password):
		return fmt.Errorf("%w: %s: the password has the form of a token", ErrInvalid, account)
	}
	return nil
}

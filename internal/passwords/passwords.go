package passwords

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Cost is the memory and the time that argon2id spends on hashing a password. A stored hash
// contains its own cost, so that the cost of new hashes may change.
type Cost struct {
	Memory uint32 // KiB
	Passes uint32 // over the memory
}

// DefaultCost is OWASP's first choice for servers with many log-ins at once.
var DefaultCost = Cost{Memory: 19 << 10, Passes: 2}

const (
	hashThreads = 1
	hashSalt    = 16 // bytes
	hashKey     = 32 // bytes
)

// maxHashMemory bounds the memory, in KiB, that the cost in a stored hash may name.
const maxHashMemory = 256 << 10

// Hash returns the PHC string to store for a password.
func (c Cost) Hash(password string) string {
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

// matches reports whether phc is a hash of password.
func matches(phc, password string) (bool, error) {
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

// New returns a random password of 120 bits.
func New() string { return strings.ToLower(rand.Text())[:24] }

// Lengths of passwords that people choose, in characters.
const (
	LeastChosen = 10
	mostChosen  = 200
)

// CheckChosen returns an error that says why a password is too easy or too long. name is the name
// of the person who has chosen it.
func CheckChosen(name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < LeastChosen:
		return fmt.Errorf("a password needs at least %d characters", LeastChosen)
	case n > mostChosen:
		return fmt.Errorf("a password has at most %d characters", mostChosen)
	case strings.EqualFold(strings.Trim(password, "0123456789!. "), name), strings.Count(password, password[:1]) == len(password):
		return errors.New("this password is the first that somebody would guess")
	}
	return nil
}

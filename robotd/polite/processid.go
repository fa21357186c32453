package polite

import (
	"crypto/rand"
	"sync"
)

// processID returns a random name for this process.
var processID = sync.OnceValue(rand.Text)

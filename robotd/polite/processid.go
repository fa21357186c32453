package polite

import (
	"crypto/rand"
	"sync"
)

// processID returns a name for the present run of the process.
var processID = sync.OnceValue(rand.Text)

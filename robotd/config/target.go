package config

import "time"

// TargetState is the state of a way to the service: a target of batches, or a URL of the manager.
type TargetState struct {
	Name     string    `json:"target"`
	Failures int       `json:"failures"`          // successive ones
	Again    time.Time `json:"again,omitzero"`    // not used before; zero or past: in use
	Error    string    `json:"error,omitempty"`   // of the last failure
	Failed   time.Time `json:"failed,omitzero"`   // time of the last failure; zero: none since the start
	Answered time.Time `json:"answered,omitzero"` // time of the last batch or answer
}

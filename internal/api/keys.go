package api

// KeyTrouble is a robot that does not know the service's newest key.
type KeyTrouble struct {
	Robot string `json:"robot"`
	Why   string `json:"why"` // why, and what to do
}

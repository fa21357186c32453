package webpage

// Japanese returns the dictionary.
func Japanese() map[string]string { return japanese }

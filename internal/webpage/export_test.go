package webpage

// Japanese gives the dictionary.
func Japanese() map[string]string { return japanese }

package webpage

// Japanese returns the dictionary.
func Japanese() map[string]string { return japanese }

// ChartText returns the template of charts.
func ChartText() string { return chartText }

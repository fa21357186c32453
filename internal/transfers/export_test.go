package transfers

// Trim is what Run does each hour.
var Trim = (*Log).trim

package store

// OpenFSOn opens a store whose writes a test looks at or spoils.
var OpenFSOn = openFS

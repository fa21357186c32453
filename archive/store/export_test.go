package store

// OpenFSOn opens a store on a disk that a test records or breaks.
var OpenFSOn = openFS

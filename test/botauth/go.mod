module sheaf/test/botauth

go 1.26.0

require github.com/remitly-oss/httpsig-go v1.2.0

require github.com/dunglas/httpsfv v1.0.2 // indirect

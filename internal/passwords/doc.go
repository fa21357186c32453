// Package passwords hashes and checks the passwords of accounts and operators, with argon2id.
//
// # Guesses
//
// Limiter bounds how fast names and passwords can be guessed: those of accounts, over HTTP and FTP,
// the robots' secrets and the operators' token.
//
// A wrong password counts against its account together with the address it came from. So somebody
// who guesses keeps nobody out: the account's owner logs in from other addresses, and others from
// the same address. A password that was right once is let through even where both are the same. In
// addition, an address may give only so many wrong passwords for all accounts together. That bounds
// somebody who tries one password with many names.
//
// A try is counted before its password is checked and taken back if it was right. Tries that come
// at the same moment therefore cannot all be checked before the first of them is counted.
package passwords

// Package passwords hashes and checks the passwords of accounts and operators, with argon2id.
//
// # Guesses
//
// Limiter bounds how fast anybody can guess accounts' names and passwords, over HTTP and FTP, the
// robots' secrets and the operators' token.
//
// A wrong password counts for the pair of its account and the address from which it came. So
// somebody who guesses locks nobody out: the account's owner can log in from other addresses, and
// others from the same address. A password that was right once is accepted even from the same
// address. In addition, the wrong passwords of one address for all accounts together are bounded.
// That stops somebody who tries one password with many names.
//
// A try is counted before its password is checked, and the count is taken back if the password was
// right. So tries that come at the same moment cannot all be checked before the first of them is
// counted.
package passwords

package account

// NewAccount is the body of POST /v1/admin/accounts, and its answer. If it has no password, the
// service makes one. The answer is the only place that ever shows it.
type NewAccount struct {
	Account
	Password string `json:"password,omitempty"`
}

// AccountList is the answer of GET /v1/admin/accounts.
type AccountList struct {
	Accounts []AccountLine `json:"accounts"`
}

// AccountLine is an account and how many bytes it has fetched today.
type AccountLine struct {
	Account
	Today int64 `json:"today"`
}

// NewToken is the body of POST /v1/tokens, with name, uses and expiry, and its answer. The answer
// is the only place that ever shows the secret.
type NewToken struct {
	Token
	Secret string `json:"secret,omitempty"`
}

// TokenList is the answer of GET /v1/tokens, oldest first.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

package testkit

import "net/http"

// Tests send requests by http.DefaultClient, over connections of its own. The end of any
// httptest.Server closes the unused connections of http.DefaultTransport, also those to other
// servers. A request of another test then fails if it reads an answer without a body at this
// moment.
func init() {
	http.DefaultClient.Transport = http.DefaultTransport.(*http.Transport).Clone()
}

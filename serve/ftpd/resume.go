package ftpd

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/ftp"
	"sheaf/serve/content"
)

// FTP has no way for a client to say of which version of a file it has the first
// bytes: REST and RETR would join the beginning of one archive to the end of
// another. So the service remembers which version it sent to whom last, and a
// client that wants to go on in another is told so.
//
// What is remembered does not outlast the process. Of a file that changes with
// editions and of which nothing is known, a resume is therefore refused too.

// remembered is how many files, each of one account, are kept in mind: some 20 MB.
const remembered = 1 << 17

type resumes struct {
	sent *lru.Cache[fetched, string] // → ETag
}

// fetched is a file that an account has had bytes of.
type fetched struct{ account, path string }

func newResumes() *resumes {
	sent, _ := lru.New[fetched, string](remembered) // fails only for sizes below one
	return &resumes{sent}
}

// allow notes that an account reads a file from offset on, or says why it may not.
func (r *resumes) allow(account, path string, n content.Node, offset int64) error {
	what := fetched{account, path}
	if offset > 0 {
		switch etag, known := r.sent.Get(what); {
		case known && etag != n.ETag:
			return &ftp.Error{Code: 554, Msg: path + " has changed since you fetched its beginning; fetch it anew, from byte 0"}
		case !known && !n.Fixed:
			return &ftp.Error{Code: 554, Msg: path + " changes, and it is not known here of which version your beginning is; fetch it anew, from byte 0"}
		}
	}
	r.sent.Add(what, n.ETag)
	return nil
}

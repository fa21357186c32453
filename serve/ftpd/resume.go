package ftpd

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/ftp"
	"sheaf/serve/library"
)

// maxRemembered is how many downloads are remembered. They take some 20 MB.
const maxRemembered = 1 << 17

// resumes remembers which version of a file was sent to which account last. FTP has no way for a
// client to say of which version it has the first bytes: REST and RETR could join the beginning of
// one archive to the end of another.
//
// It forgets all when the process ends. So it also refuses to resume a file that changes with
// editions if it does not know which version was sent.
type resumes struct {
	sent *lru.Cache[download, string] // ETags
}

// download is a file of which an account has received bytes.
type download struct{ account, path string }

func newResumes() *resumes {
	sent, _ := lru.New[download, string](maxRemembered) // fails only for sizes below one
	return &resumes{sent}
}

// allow notes that an account downloads a file from offset on, or returns why it may not.
func (r *resumes) allow(account, path string, n library.Node, offset int64) error {
	what := download{account, path}
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

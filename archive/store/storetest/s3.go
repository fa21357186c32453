package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"sheaf/archive/store"
	"sheaf/internal/testkit"
)

// S3Server is a program that serves S3 on loopback from a directory.
type S3Server struct {
	Address string // host:port
	Root    string // directory of the stored objects

	program string
	args    []string
	env     []string
	process *testkit.Process
	buckets atomic.Int64
}

// Credentials of an S3Server's owner.
const (
	s3Access = "sheaf-access"
	s3Secret = "sheaf-secret"
)

// StartVersity starts versitygw, which stores each object in a file named by its key.
func StartVersity(t testing.TB) *S3Server {
	t.Helper()
	s := newS3Server(t, "versitygw")
	s.args = []string{"--port", s.Address, "--access", s3Access, "--secret", s3Secret, "--quiet", "posix", s.Root}
	s.Start(t)
	return s
}

// StartMinIO starts MinIO over one directory.
func StartMinIO(t testing.TB) *S3Server {
	t.Helper()
	s := newS3Server(t, "minio")
	s.args = []string{"server", "--quiet", "--address", s.Address, s.Root}
	s.env = []string{"MINIO_ROOT_USER=" + s3Access, "MINIO_ROOT_PASSWORD=" + s3Secret, "MINIO_BROWSER=off",
		"MINIO_UPDATE=off", "HOME=" + t.TempDir()}
	s.Start(t)
	return s
}

func newS3Server(t testing.TB, program string) *S3Server {
	t.Helper()
	path := testkit.Tool(t, program)
	s := &S3Server{Address: testkit.Addresses(t, 1)[0], Root: filepath.Join(t.TempDir(), "objects"), program: path}
	if err := os.Mkdir(s.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// Start starts the program again after Kill, over the same directory. It waits until the program
// refuses strangers. Before that, MinIO knows only its root user, and tells other users to try
// again.
func (s *S3Server) Start(t testing.TB) {
	t.Helper()
	program := exec.Command(s.program, s.args...)
	program.Env = append(os.Environ(), s.env...)
	s.process = testkit.Start(t, "", program)
	known, stranger := s.client(t, s3Access), s.client(t, "stranger")
	s.process.Ready(t, func() error {
		if _, err := known.ListBuckets(t.Context()); err != nil {
			return err
		}
		_, err := stranger.ListBuckets(t.Context())
		if refused := minio.ToErrorResponse(err).StatusCode; refused/100 != 4 { // 503 means try again later
			return fmt.Errorf("a stranger is answered %d: %w", refused, err)
		}
		return nil
	})
}

// Kill ends the program as kill -9 does.
func (s *S3Server) Kill() {
	s.process.Kill()
}

func (s *S3Server) client(t testing.TB, access string) *minio.Client {
	t.Helper()
	c, err := minio.New(s.Address, &minio.Options{Creds: credentials.NewStaticV4(access, s3Secret, ""), Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Options creates a bucket and returns the options for a store in it.
func (s *S3Server) Options(t testing.TB) store.S3Options {
	t.Helper()
	bucket := fmt.Sprintf("bucket-%d", s.buckets.Add(1))
	if err := s.client(t, s3Access).MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return store.S3Options{Endpoint: "http://" + s.Address, Bucket: bucket, AccessKey: s3Access, SecretKey: s3Secret}
}

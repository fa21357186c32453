package ingest

import (
	"bufio"
	"context"
	"hash"
	"io"
)

// input is a batch file being read: hashed and counted as it goes by. It keeps
// the first error of the disk, so that this is never taken for one of the batch.
type input struct {
	r    io.Reader
	hash hash.Hash
	n    int64
	err  error

	ahead *bufio.Reader // of one host after the other: the verifier's own would be made anew for each
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	in.hash.Write(p[:n])
	in.n += int64(n)
	if err != nil && err != io.EOF && in.err == nil {
		in.err = err
	}
	return n, err
}

// skip reads on to an offset.
func (in *input) skip(to int64) error {
	if _, err := io.CopyN(io.Discard, in, to-in.n); err != nil && err != io.EOF {
		return err
	}
	return nil // what is not there is missed by the verifier of what follows
}

// output is an object on its way into the store. failed says that the store gave
// up before the writer did.
type output struct {
	*io.PipeWriter
	done   chan error
	failed bool
}

// put begins to store an object of the given size from what is written.
func (i *Ingest) put(ctx context.Context, key string, size int64) *output {
	r, w := io.Pipe()
	out := &output{PipeWriter: w, done: make(chan error, 1)}
	go func() {
		err := i.opt.Store.Put(ctx, key, r, size)
		r.CloseWithError(err) // nil: nothing is written any more
		out.done <- err
	}()
	return out
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.PipeWriter.Write(p)
	o.failed = o.failed || err != nil
	return n, err
}

// finish ends the object, whole where cause is nil and not at all otherwise, and
// waits for what the store says.
func (o *output) finish(cause error) error {
	o.CloseWithError(cause)
	return <-o.done
}

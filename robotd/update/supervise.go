package update

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/loop"
	"sheaf/internal/wire"
)

// Supervisor runs the robot's program and restarts it when it ends. Set the fields before Run, and
// do not change them afterwards.
type Supervisor struct {
	Dir       string   // folder update/; created if missing
	Installed string   // path of the program that the administrator installed
	Args      []string // arguments of the program
	Trial     time.Duration
	Pause     time.Duration // wait before a program that ended by itself is restarted
	Stop      time.Duration // time for a program to end, after which it is killed
	Log       *slog.Logger
	Output    *os.File // of the program; nil: the supervisor's own
}

// maxStarts is how often a program on trial may end before it has failed.
const maxStarts = 3

const pidFile = "supervisor.pid"

// Run runs programs until ctx ends, and then returns nil.
func (v *Supervisor) Run(ctx context.Context) error {
	if err := files.MkdirAll(v.Dir, 0o700); err != nil {
		return err
	}
	pid, err := v.lock()
	if err != nil {
		return err
	}
	defer pid.Close()
	runtime.LockOSThread() // children end with the thread that started them; see child
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		staged, err := v.once(ctx)
		if err != nil {
			return err
		}
		if !staged {
			loop.Pause(ctx, v.Pause)
		}
	}
	return nil
}

func (v *Supervisor) lock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(v.Dir, pidFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := files.TryLock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("another supervisor works in %s: %w", v.Dir, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// once runs one program until it ends. It reports whether the next program is to start at once.
func (v *Supervisor) once(ctx context.Context) (change bool, err error) {
	s, err := v.settle()
	if err != nil {
		return false, err
	}
	p, path, counter := s.Current, s.Current.path(v.Dir), s.Current.Counter
	switch {
	case s.Trial != nil:
		p, path, counter = s.Trial.Program, s.Trial.path(v.Dir), s.Trial.Counter
	case p.Counter == 0:
		path, counter = v.Installed, v.installedCounter()
	}
	v.Log.InfoContext(ctx, "starting", "path", path, "release", counter, "trial", s.Trial != nil)
	limit := time.Duration(0)
	if s.Trial != nil {
		limit = max(time.Until(s.Trial.Began.Add(v.Trial)), time.Second)
	}
	ended := v.child(ctx, path, counter, limit, func() error { return v.promote(p) })
	if ctx.Err() != nil {
		return true, v.forgive()
	}
	v.Log.WarnContext(ctx, "the program ended", "release", counter, "reason", ended)
	after, err := load(v.Dir)
	if err != nil {
		return false, err
	}
	if errors.Is(ended, errSilent) && after.Trial != nil && after.Trial.Counter == counter {
		return true, v.putBack(&after, ended.Error())
	}
	return after.Trial != nil && after.Trial.Starts == 0, nil
}

// settle decides which program to start. It records the start of a program on trial in advance, so
// that a program that crashes the machine fails its trial, too.
func (v *Supervisor) settle() (*state, error) {
	s, err := load(v.Dir)
	if err != nil {
		return nil, err
	}
	if t := s.Trial; t != nil {
		now := time.Now()
		switch {
		case t.Counter <= v.installedCounter():
			s.Trial = nil
			err = s.save(v.Dir)
		case t.Starts >= maxStarts:
			err = v.putBack(&s, fmt.Sprintf("ended %d times before it reported in", t.Starts))
		case t.Starts > 0 && now.Sub(t.Began) >= v.Trial:
			err = v.putBack(&s, errSilent.Error())
		case holds(t.path(v.Dir), t.SHA256) != nil:
			err = v.putBack(&s, "the program on the disk is not the one that was fetched")
		default:
			if t.Starts == 0 {
				t.Began = now
			}
			t.Starts++
			err = s.save(v.Dir)
		}
		if err != nil {
			return nil, err
		}
	}
	if s.Current.Counter > 0 && s.Trial == nil {
		if s.Current.Counter <= v.installedCounter() { // the administrator has installed a newer one
			s.Current = Program{}
			return &s, errors.Join(s.save(v.Dir), v.sweep(&s))
		}
		if err := holds(s.Current.path(v.Dir), s.Current.SHA256); err != nil {
			v.Log.Error("the current program is damaged; starting the installed one", "err", err)
			s.Current = Program{}
			return &s, s.save(v.Dir)
		}
	}
	return &s, nil
}

// installedCounter returns the counter of the installed release, or 0. It reads the release's text
// beside the program, where only the administrator can write.
func (v *Supervisor) installedCounter() int64 {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(v.Installed), wire.FileName))
	if err != nil {
		return 0
	}
	r, err := wire.ParseRelease(text)
	if err != nil {
		v.Log.Warn("the installed release cannot be read", "err", err)
		return 0
	}
	return r.Counter
}

var errSilent = errors.New("did not report in within the time of its trial")

// child runs a program until the program or ctx ends. It kills a program that has not reported
// within limit, unless limit is 0. It calls done when the program reports.
func (v *Supervisor) child(ctx context.Context, path string, counter int64, limit time.Duration, done func() error) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, path, v.Args...)
	cmd.Env = append(os.Environ(), pipeVariable+"=3", counterVariable+"="+strconv.FormatInt(counter, 10))
	cmd.ExtraFiles = []*os.File{write}
	cmd.Stdout, cmd.Stderr = cmp.Or(v.Output, os.Stdout), cmp.Or(v.Output, os.Stderr)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = v.Stop
	// The kernel ends the child when its supervisor ends, for any reason: an orphan would keep the
	// robot's folder locked and block the next one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return err
	}
	var timer *time.Timer
	if limit > 0 {
		timer = time.AfterFunc(limit, func() { cancel(errSilent) })
	}
	told := make(chan error, 1)
	go func() {
		line := make([]byte, len(reported))
		_, err := io.ReadFull(read, line)
		if err != nil || string(line) != reported {
			told <- nil
			return
		}
		if timer != nil && !timer.Stop() {
			told <- nil // too late
			return
		}
		told <- done()
	}()
	err = cmd.Wait()
	if timer != nil {
		timer.Stop()
	}
	read.Close()
	if cause := context.Cause(ctx); cause == errSilent {
		return errSilent
	}
	if doneErr := <-told; doneErr != nil {
		return doneErr
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return err
}

// promote makes a program on trial the current one.
func (v *Supervisor) promote(p Program) error {
	s, err := load(v.Dir)
	if err != nil || s.Trial == nil || s.Trial.Counter != p.Counter || s.Trial.Starts == 0 {
		return err
	}
	s.Current, s.Trial = p, nil
	v.Log.Info("a new program has reported and is the current one", "release", p.Counter, "program_version", p.Version)
	return errors.Join(s.save(v.Dir), v.sweep(&s))
}

func (v *Supervisor) putBack(s *state, why string) error {
	v.Log.Error("a new program has failed; going back to the old one", "release", s.Trial.Counter, "reason", why)
	s.fail(why, time.Now())
	return errors.Join(s.save(v.Dir), v.sweep(s))
}

// forgive does not count a start that the end of the supervisor interrupted.
func (v *Supervisor) forgive() error {
	s, err := load(v.Dir)
	if err != nil || s.Trial == nil || s.Trial.Starts == 0 {
		return err
	}
	s.Trial.Starts--
	return s.save(v.Dir)
}

// sweep removes programs that are neither current nor on trial.
func (v *Supervisor) sweep(s *state) error {
	files, err := filepath.Glob(filepath.Join(v.Dir, "robotd-*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if file == s.Current.path(v.Dir) || s.Trial != nil && file == s.Trial.path(v.Dir) {
			continue
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// Variables in the child's environment that tell it about its supervisor.
const (
	pipeVariable    = "SHEAF_SUPERVISOR" // file descriptor on which to report
	counterVariable = "SHEAF_RELEASE"    // counter of the child's release; 0: not a release
)

// reported is what the child writes when it has reported to the manager.
const reported = "REPORTED\n"

// Parent is the supervisor, as seen by the child.
type Parent struct {
	Counter int64 // of the release that the child runs

	pipe io.WriteCloser // nil: there is no supervisor, or it has been told
	on   bool
}

// FindParent returns the supervisor of this process, from the environment.
func FindParent() (Parent, error) {
	text := os.Getenv(pipeVariable)
	if text == "" {
		return Parent{}, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return Parent{}, fmt.Errorf("%s=%q is not the number of a file descriptor", pipeVariable, text)
	}
	counter, err := strconv.ParseInt(os.Getenv(counterVariable), 10, 64)
	if err != nil {
		return Parent{}, fmt.Errorf("%s: %w", counterVariable, err)
	}
	return Parent{Counter: counter, pipe: os.NewFile(uintptr(fd), "supervisor"), on: true}, nil
}

// Supervised reports whether there is a supervisor. Without one nobody could go back to the old
// program, so new ones are not accepted.
func (p *Parent) Supervised() bool { return p.on }

// Reported tells the supervisor, once, that this program has reported to the manager.
func (p *Parent) Reported() error {
	if p.pipe == nil {
		return nil
	}
	pipe := p.pipe
	p.pipe = nil
	_, err := io.WriteString(pipe, reported)
	if err != nil {
		pipe.Close()
		return fmt.Errorf("supervisor: %w", err)
	}
	return pipe.Close()
}

// Stale reports whether the newest release that this robot has seen has expired, and when. If it
// has, nothing newer has come since, perhaps because of an attacker.
func Stale(dir string, now time.Time) (since time.Time, stale bool, err error) {
	s, err := load(dir)
	if err != nil || s.Expires.IsZero() || now.Before(s.Expires) {
		return time.Time{}, false, err
	}
	return s.Expires, true, nil
}

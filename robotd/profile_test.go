package robotd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"
)

// profileEnv names a folder into which robots that are processes of their own write what they
// do: the processor's time while they run, and the heap each ten seconds, the largest kept.
const profileEnv = "ROBOTD_TEST_PROFILE"

// profile writes profiles until the returned function is called.
func profile(dir string) (stop func()) {
	file := func(kind string) *os.File {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", kind, os.Getpid())))
		if err != nil {
			panic(err)
		}
		return f
	}
	runtime.MemProfileRate = 8 << 10 // of ten thousand hosts' small pieces each 512 KiB would tell little
	cpu := file("cpu")
	if err := pprof.StartCPUProfile(cpu); err != nil {
		panic(err)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var most uint64
		for {
			select {
			case <-end:
				return
			case <-time.After(10 * time.Second):
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapInuse+m.StackInuse <= most {
				continue
			}
			most = m.HeapInuse + m.StackInuse
			heap, routines := file("heap"), file("goroutines")
			_ = pprof.Lookup("heap").WriteTo(heap, 0)
			_ = pprof.Lookup("goroutine").WriteTo(routines, 0)
			fmt.Fprintf(os.Stderr, "heap in use %d, live %d, stacks %d, sys %d, goroutines %d\n", m.HeapInuse, m.HeapAlloc, m.StackInuse, m.Sys, runtime.NumGoroutine())
			heap.Close()
			routines.Close()
		}
	}()
	return func() {
		close(end)
		<-ended
		pprof.StopCPUProfile()
		cpu.Close()
	}
}

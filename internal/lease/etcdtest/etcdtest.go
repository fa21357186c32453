// Package etcdtest runs a real etcd cluster for tests. Each member is a process that can be killed.
package etcdtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"sheaf/internal/testkit"
)

// memberEnv holds a member's settings in the environment of a member process.
const memberEnv = "SHEAF_TEST_ETCD_MEMBER"

// Main runs a member, and does not return, if the test program was started as one. A package that
// uses a Cluster must call Main first in its TestMain.
func Main() {
	text := os.Getenv(memberEnv)
	if text == "" {
		return
	}
	if err := beMember(text); err != nil {
		fmt.Fprintln(os.Stderr, "etcd member:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Member is a member of an etcd cluster.
type Member struct {
	Name, Dir    string
	Client, Peer string // URLs
	Cluster      string // name=peer URL of all initial members
	Existing     bool   // it joins an existing cluster

	proc *exec.Cmd
}

// beMember runs the member until it is killed or removed from the cluster.
func beMember(text string) error {
	var m Member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	client, err := url.Parse(m.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(m.Peer)
	if err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Name, c.Dir = m.Name, m.Dir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.InitialCluster = m.Cluster
	if m.Existing {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	c.TickMs, c.ElectionMs = 50, 500 // half of the defaults: tests wait for elections
	c.UnsafeNoFsync = true           // kill -9 does not lose written pages
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return err
	}
	fmt.Println("ready")
	select {
	case <-e.Server.StopNotify(): // the member was removed
		return nil
	case err := <-e.Err():
		return err
	}
}

// Start starts the member, also after Kill. ready waits until it serves.
func (m *Member) Start(t testing.TB) (ready func()) {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	m.proc = exec.Command(os.Args[0])
	m.proc.Env = append(os.Environ(), memberEnv+"="+string(text))
	m.proc.Stderr = os.Stderr
	m.proc.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := m.proc.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.proc.Start(); err != nil {
		t.Fatal(err)
	}
	proc := m.proc
	t.Cleanup(func() { proc.Process.Kill(); proc.Wait() }) // both fail if it was killed before
	return func() {
		t.Helper()
		line, err := bufio.NewReader(out).ReadString('\n')
		if strings.TrimSpace(line) != "ready" {
			t.Fatalf("etcd member %s: %q, %v", m.Name, line, err)
		}
		go io.Copy(io.Discard, out)
	}
}

// Kill kills the member with SIGKILL.
func (m *Member) Kill(t testing.TB) {
	t.Helper()
	if err := m.proc.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m.proc.Wait() // only says that it was killed
}

// NewMember returns a member that is not started.
func NewMember(t testing.TB, name string) *Member {
	at := testkit.Addresses(t, 2)
	return &Member{Name: name, Dir: t.TempDir(), Client: "http://" + at[0], Peer: "http://" + at[1]}
}

// Cluster is a cluster on loopback with a client for its administration. It must not be used
// concurrently.
type Cluster struct {
	Members []*Member
	Client  *clientv3.Client
}

// Start runs a cluster of size members until the test ends.
func Start(t testing.TB, size int) *Cluster {
	t.Helper()
	c := &Cluster{}
	var names []string
	for n := range size {
		m := NewMember(t, fmt.Sprint("m", n))
		c.Members = append(c.Members, m)
		names = append(names, m.Name+"="+m.Peer)
	}
	var ready []func()
	for _, m := range c.Members {
		m.Cluster = strings.Join(names, ",")
		ready = append(ready, m.Start(t))
	}
	for _, wait := range ready {
		wait()
	}
	var err error
	c.Client, err = clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), AutoSyncInterval: time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Client.Close() })
	return c
}

// Endpoints returns the members' client URLs.
func (c *Cluster) Endpoints() (urls []string) {
	for _, m := range c.Members {
		urls = append(urls, m.Client)
	}
	return urls
}

// Leader returns the leading member. It waits until there is one.
func (c *Cluster) Leader(t testing.TB) *Member {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, m := range c.Members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s, err := c.Client.Status(ctx, m.Client)
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				return m
			}
		}
	}
	t.Fatal("no leader within testkit.Patience")
	return nil
}

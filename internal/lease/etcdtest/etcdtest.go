// Package etcdtest gives tests a real etcd cluster, each member a process that can be killed.
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

// memberEnv holds a member's settings where the test's program is to be one.
const memberEnv = "SHEAF_TEST_ETCD_MEMBER"

// Main makes the test's program a member where it was started as one, and does not
// return then. A package that uses a Cluster calls it first in its TestMain.
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

// Member is one of an etcd cluster.
type Member struct {
	Name, Dir    string
	Client, Peer string // URLs
	Cluster      string // name=peer URL, of all members at the start
	Existing     bool   // it joins a cluster that is there

	proc *exec.Cmd
}

// beMember runs until it is killed, or removed from the cluster.
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
	c.TickMs, c.ElectionMs = 50, 500 // half of what is usual: tests wait for elections
	c.UnsafeNoFsync = true           // kill -9 loses no page that was written
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
	case <-e.Server.StopNotify(): // removed
		return nil
	case err := <-e.Err():
		return err
	}
}

// Start runs the member, after Kill once more, and ready waits until it serves.
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
	t.Cleanup(func() { proc.Process.Kill(); proc.Wait() }) // either has an error where it was killed before
	return func() {
		t.Helper()
		line, err := bufio.NewReader(out).ReadString('\n')
		if strings.TrimSpace(line) != "ready" {
			t.Fatalf("etcd member %s: %q, %v", m.Name, line, err)
		}
		go io.Copy(io.Discard, out)
	}
}

// Kill is kill -9.
func (m *Member) Kill(t testing.TB) {
	t.Helper()
	if err := m.proc.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m.proc.Wait() // says that it was killed
}

// NewMember gives one that is not started.
func NewMember(t testing.TB, name string) *Member {
	at := testkit.Addresses(t, 2)
	return &Member{Name: name, Dir: t.TempDir(), Client: "http://" + at[0], Peer: "http://" + at[1]}
}

// Cluster is members on loopback, and a client that works on the cluster itself. It is
// for one goroutine.
type Cluster struct {
	Members []*Member
	Client  *clientv3.Client
}

// Start runs so many members until the test ends.
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

// Endpoints are the members' URLs for clients.
func (c *Cluster) Endpoints() (urls []string) {
	for _, m := range c.Members {
		urls = append(urls, m.Client)
	}
	return urls
}

// Leader gives the member that leads, and waits until one does.
func (c *Cluster) Leader(t testing.TB) *Member {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, m := range c.Members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s, err := c.Client.Status(ctx, m.Client)
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				return m
			}
		}
	}
	t.Fatal("no leader in a minute")
	return nil
}

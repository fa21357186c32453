package lease_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
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
)

// memberEnv holds a member's settings where the test's program is to be one: each
// member is a process, which can be killed.
const memberEnv = "SHEAF_TEST_ETCD_MEMBER"

func TestMain(m *testing.M) {
	if text := os.Getenv(memberEnv); text != "" {
		if err := beMember(text); err != nil {
			fmt.Fprintln(os.Stderr, "etcd member:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// member is one of an etcd cluster.
type member struct {
	Name, Dir    string
	Client, Peer string // URLs
	Cluster      string // name=peer URL, of all members at the start
	Existing     bool   // it joins a cluster that is there

	proc *exec.Cmd
}

// beMember runs until it is killed, or removed from the cluster.
func beMember(text string) error {
	var m member
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
	c.UnsafeNoFsync = true // kill -9 loses no page that was written
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

// start runs the member, and ready waits until it serves.
func (m *member) start(t *testing.T) (ready func()) {
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

// kill is kill -9.
func (m *member) kill(t *testing.T) {
	t.Helper()
	must(t, m.proc.Process.Kill())
	m.proc.Wait() // says that it was killed
}

// cluster is members on loopback, and a client that works on the cluster itself.
type cluster struct {
	t       *testing.T
	members []*member
	client  *clientv3.Client
}

// freeURL gives a loopback address that nobody listens on at the moment.
func freeURL(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func newMember(t *testing.T, name string) *member {
	return &member{Name: name, Dir: t.TempDir(), Client: freeURL(t), Peer: freeURL(t)}
}

func startCluster(t *testing.T, size int) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var names []string
	for n := range size {
		m := newMember(t, fmt.Sprint("m", n))
		c.members = append(c.members, m)
		names = append(names, m.Name+"="+m.Peer)
	}
	var ready []func()
	for _, m := range c.members {
		m.Cluster = strings.Join(names, ",")
		ready = append(ready, m.start(t))
	}
	for _, wait := range ready {
		wait()
	}
	var err error
	c.client, err = clientv3.New(clientv3.Config{Endpoints: c.endpoints(), AutoSyncInterval: time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.client.Close() })
	return c
}

func (c *cluster) endpoints() (urls []string) {
	for _, m := range c.members {
		urls = append(urls, m.Client)
	}
	return urls
}

package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/naming"
	"sheaf/archive/store/storetest"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/window"
	"sheaf/robotd/batch"
	"sheaf/test/servicetest"
)

// TestCompose runs the processes of deploy/compose on loopback, with its settings and its nginx:
// two managers, three that ingest, three that serve, PostgreSQL and versitygw. While robots upload
// and consumers read, it kills processes, restarts the database, and lets the store stall and fail.
// In the end nothing is lost or there twice, every reader had the right bytes, and no account read
// outside its window or, but for the last seconds, beyond its quota. A dead process's batch is
// taken over after a minute, so it runs in the long form only: for two minutes, or as many seconds
// as SHEAF_COMPOSE_SECONDS says.
func TestCompose(t *testing.T) {
	if os.Getenv(composeSeconds) == "" {
		testkit.Long(t)
	}
	t.Parallel()
	d := newDeployment(t)
	d.admit()
	consumers := d.consumeAll()
	working, stop := context.WithCancel(t.Context())
	robots := d.work(working)
	testkit.Until(t, "work begins", func() bool { return d.publishedBy(d.members) > len(d.members) })
	d.disturb(composeTime(t))
	if d.outage == 0 || d.store.failed.Load() == 0 || d.store.held.Load() == 0 || len(d.kills) < 3 {
		t.Errorf("not every fault was made: %v killed, the database away for %v, %d requests failed, %d held", d.kills, d.outage, d.store.failed.Load(), d.store.held.Load())
	}
	stop()
	t.Log("the robots bring the rest")
	robots.Wait()
	d.checkAll(consumers)
}

// deployment is the processes of deploy/compose, and what is around them.
type deployment struct {
	*fleet  // as robots see it: through the proxies
	project servicetest.Compose
	sheaf   string
	nodes   map[string]*running
	proxyIP string
	store   *faultyStore
	base    map[string]any // settings that all processes share here
	control *dbtest.Cluster
	outage  time.Duration // of the database, in all
	outages int
	kills   map[string]int
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{
		fleet: &fleet{installation: newInstallation(t, "")}, project: servicetest.LoadCompose(t), sheaf: testkit.Build(t, "sheaf/cmd/sheaf"),
		nodes: map[string]*running{}, control: dbtest.Start(t), kills: map[string]int{},
	}
	d.proxyIP, _, _ = net.SplitHostPort(testkit.Addresses(t, 1)[0]) // it has both
	bucket := storetest.StartVersity(t).Options(t)
	d.store = newFaultyStore(t, bucket.Endpoint)
	d.base = map[string]any{
		"store.kind": "s3", "store.endpoint": bucket.Endpoint, "store.bucket": bucket.Bucket, "store.access_key": bucket.AccessKey, "store.secret_key": bucket.SecretKey,
	}
	d.settings["zone"] = testkit.Midday().String() // a quota's day does not end meanwhile
	names := d.project.Nodes()
	listen := testkit.Addresses(t, 3*len(names)+3)
	d.settings["http.listen"], d.settings["download.listen"], d.settings["drop.listen"] = listen[0], listen[1], listen[2]
	at := map[string]string{} // addresses here, by those in the containers' network
	for n, name := range names {
		d.addNode(name, listen[3+3*n:], at)
	}
	d.startNginx(at)
	d.relay("download.listen", "serve")
	d.relay("drop.listen", "ingest")
	first := d.nodes["manager1"] // makes the keys
	first.up()
	for name, s := range d.nodes {
		if name != "manager1" {
			s.program.start()
		}
	}
	for _, s := range d.nodes {
		s.ready()
	}
	d.process = first.process
	return d
}

// addNode prepares a process of compose.yaml: its command and variables, but for what is of this
// machine.
func (d *deployment) addNode(name string, listen []string, at map[string]string) {
	c := d.project.Services[name]
	h := *d.installation
	h.data = filepath.Join(d.t.TempDir(), name)
	h.log = d.log + "." + name
	h.settings = maps.Clone(d.settings)
	h.settings["data"] = h.data
	for n, key := range []string{"http.listen", "download.listen", "drop.listen"} {
		h.settings[key] = listen[n]
		at[c.Address()+map[string]string{"http.listen": ":8080", "download.listen": ":2121", "drop.listen": ":2122"}[key]] = listen[n]
	}
	h.settings["store.bucket"] = d.base["store.bucket"]
	for _, key := range []string{"uploads.accepted", "database.url"} {
		delete(h.settings, key) // as compose says
	}
	text, err := os.ReadFile(c.Mounted("/etc/sheaf/sheaf.yaml"))
	testkit.Must(d.t, err)
	changed := strings.NewReplacer("http://versitygw:7070", d.store.url, d.project.Services["proxy"].Address(), d.proxyIP).Replace(string(text))
	file := h.data + ".yaml"
	testkit.Must(d.t, os.WriteFile(file, []byte(changed), 0o600))
	here, _, _ := net.SplitHostPort(listen[0])
	environment := maps.Clone(c.Environment)
	environment["SHEAF_DATABASE_URL"] = d.control.URL
	environment["SHEAF_STORE_ACCESS_KEY"], environment["SHEAF_STORE_SECRET_KEY"] = d.base["store.access_key"].(string), d.base["store.secret_key"].(string)
	environment["SHEAF_HTTP_PUBLIC"] = d.url()
	p := &program{t: d.t.(*testing.T), path: d.sheaf, log: h.log, args: append(slices.Replace(slices.Clone(c.Command), 2, 3, file), h.flags()...)}
	for key, value := range environment {
		if value == servicetest.ComposeAddress {
			value = here
		}
		p.env = append(p.env, key+"="+value)
	}
	d.nodes[name] = &running{installation: &h, program: p}
}

// startNginx runs nginx with the settings of compose, for HTTP. It may lack the module for FTP,
// where relay takes its place.
func (d *deployment) startNginx(at map[string]string) {
	text, err := os.ReadFile(d.project.Services["proxy"].Mounted("/etc/nginx/nginx.conf"))
	testkit.Must(d.t, err)
	conf, _, _ := strings.Cut(string(text), "# FTP.")
	for there, here := range at {
		conf = strings.ReplaceAll(conf, "server "+there+" ", "server "+here+" ")
	}
	dir := d.t.TempDir()
	conf = strings.NewReplacer("/tmp/", dir+"/", "listen 8080;", "listen "+d.settings["http.listen"].(string)+";", "http {", "http {\nproxy_bind "+d.proxyIP+";").Replace(conf)
	if strings.Contains(conf, "172.30.46.") {
		d.t.Fatalf("nginx would lead out of this machine:\n%s", conf)
	}
	if os.Geteuid() == 0 {
		conf = "user root;\n" + conf // the test's directories are nobody else's
	}
	file := filepath.Join(dir, "nginx.conf")
	testkit.Must(d.t, os.WriteFile(file, []byte("daemon off;\n"+conf), 0o600))
	p := testkit.Start(d.t, "", exec.Command(testkit.Tool(d.t, "nginx"), "-c", file, "-p", dir, "-e", "stderr"))
	p.Ready(d.t, func() error {
		c, err := net.Dial("tcp", d.settings["http.listen"].(string))
		if err == nil {
			c.Close()
		}
		return err
	})
}

// relay does for FTP what nginx's module for streams does: it leads each connection to a process
// that lives, with a PROXY header.
func (d *deployment) relay(key, role string) {
	l, err := net.Listen("tcp", d.settings[key].(string))
	testkit.Must(d.t, err)
	d.t.Cleanup(func() { l.Close() })
	var to []string
	for name, s := range d.nodes {
		if strings.HasPrefix(name, role) {
			to = append(to, s.settings[key].(string))
		}
	}
	slices.Sort(to)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(d.proxyIP)}, Timeout: 2 * time.Second}
	lead := func(c net.Conn, first int) {
		defer c.Close()
		for n := range to {
			s, err := dialer.Dial("tcp", to[(first+n)%len(to)])
			if err != nil {
				continue
			}
			defer s.Close()
			from, local := c.RemoteAddr().(*net.TCPAddr), c.LocalAddr().(*net.TCPAddr)
			fmt.Fprintf(s, "PROXY TCP4 %s %s %d %d\r\n", from.IP, local.IP, from.Port, local.Port)
			go func() { io.Copy(s, c); s.(*net.TCPConn).CloseWrite() }()
			io.Copy(c, s)
			return
		}
	}
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go lead(c, n)
		}
	}()
}

// role returns the processes of one role.
func (d *deployment) role(role string) (list []*running) {
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		if strings.HasPrefix(name, role) {
			list = append(list, d.nodes[name])
		}
	}
	return list
}

// admit lets the robots join, and gives them hosts.
func (d *deployment) admit() {
	m := d.nodes["manager2"]
	for _, r := range []struct {
		name string
		way  way
	}{{"waseda", byHTTP}, {"etl", byFTP}, {"jaist", cutHTTP}, {"nara", byHTTP}} {
		d.members = append(d.members, &member{robot: m.join(r.name), way: r.way, spool: newSpool(d.t)})
	}
	for _, one := range d.members {
		m.add(one.robot.Name, 3)
	}
	for _, one := range d.members {
		d.fetchList(one.robot) // through nginx
	}
}

// publishedBy returns how many batches the robots know to be published.
func (d *deployment) publishedBy(members []*member) (n int) {
	for _, m := range members {
		m.spool.mu.Lock()
		n += len(m.spool.published)
		m.spool.mu.Unlock()
	}
	return n
}

// work lets the robots make batches and upload them through the proxies until ctx ends.
func (d *deployment) work(ctx context.Context) *sync.WaitGroup {
	var g sync.WaitGroup
	for _, m := range d.members {
		desk := d.desk(m.robot)
		up := batch.NewUploader(batch.UploaderOptions{
			Spool: m.spool, Targets: []batch.Target{d.target(m.robot, desk, m.way)}, Receipts: desk, Poll: 100 * time.Millisecond, BackOff: 50 * time.Millisecond, BackOffMax: time.Second,
		})
		g.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				c := m.make(d.t, n, 2, 8<<10, m.hosts[:1+int(n)%len(m.hosts)]...)
				d.register(c)
				if err := m.spool.add(c); err != nil {
					d.t.Error(err)
				}
				if err := up.Drain(d.t.Context()); err != nil {
					d.t.Errorf("robot %s: %v", m.Name, err)
				}
				testkit.Moment(testkit.Random(d.t), 100*time.Millisecond)
			}
		})
	}
	return &g
}

// checkAll checks what must hold in the end. consumers ends the readers.
func (d *deployment) checkAll(consumers func()) {
	t := d.t.(*testing.T)
	batches := d.all()
	d.checkSpools(t, batches)
	for _, s := range d.role("ingest") { // which forgets uploads that robots have continued elsewhere
		s.program.kill()
		s.program.start()
		s.ready()
	}
	awaitEmpty(t, d.role("ingest"))
	cfg, err := service.Load("", d.base)
	testkit.Must(t, err)
	objects, err := service.OpenStore(t.Context(), cfg)
	testkit.Must(t, err)
	defer objects.Close()
	awaitReaders(t, objects, d.role("serve"))
	consumers()
	d.calmQuota()
	for _, s := range d.role("serve") {
		s.Download = s.settings["download.listen"].(string)
		s.checkPages(batches)
	}
	for _, s := range d.nodes {
		s.program.kill()
	}
	d.checkCatalogIn(objects, batches)
	report := d.fsck(d.sheaf, (&installation{settings: d.base}).flags()...)
	if report.Batches != int64(len(batches)) || report.Segments != report.Verified {
		t.Errorf("fsck finds %d batches of %d, and verified %d of %d segments", report.Batches, len(batches), report.Verified, report.Segments)
	}
	t.Logf("%d batches; killed: %v; the database was away for %v; the store failed %d requests and held %d", len(batches), d.kills, d.outage.Round(time.Second), d.store.failed.Load(), d.store.held.Load())
}

// reader counts what a consumer did.
type reader struct{ looks, refused, bytes atomic.Int64 }

// consumeAll lets consumers read from each process that serves, and through the proxies, and an
// account whose window is shut, and one that has a quota.
func (d *deployment) consumeAll() (end func()) {
	t := d.t.(*testing.T)
	const shut, limited = "shut", "limited"
	now := time.Now().UTC()
	later, err := window.Parse(now.Add(3*time.Hour).Format("15:04") + "-" + now.Add(4*time.Hour).Format("15:04") + " UTC")
	testkit.Must(t, err)
	d.account(shut, later, 0)
	d.account(limited, nil, quotaBytes)
	over := make(chan struct{})
	var g sync.WaitGroup
	every := func(pause time.Duration, look func()) {
		g.Go(func() {
			for {
				look()
				select {
				case <-over:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	var direct []*consumer
	for _, s := range d.role("serve") {
		c := &consumer{fleet: d.fleet, url: s.url(), manifests: map[string][]byte{}, patient: true}
		direct = append(direct, c)
		every(100*time.Millisecond, func() {
			if err := c.look(t.Context()); err != nil {
				t.Errorf("a consumer of %s: %v", c.url, err)
			}
		})
	}
	var byFTP, byProxy, closed, quota reader
	every(100*time.Millisecond, func() { d.retrieveSome(&byFTP) })
	every(100*time.Millisecond, func() { d.fetchSome(d.url(), "", &byProxy) })
	for _, s := range d.role("serve") {
		every(200*time.Millisecond, func() { d.fetchSome(s.url(), shut, &closed) })
		every(100*time.Millisecond, func() { d.fetchSome(s.url(), limited, &quota) })
	}
	return func() {
		for _, s := range d.role("serve") {
			testkit.Until(t, "the account with a quota is refused", func() bool {
				var last reader
				d.fetchSome(s.url(), limited, &last)
				quota.bytes.Add(last.bytes.Load())
				return last.refused.Load() > 0
			})
		}
		close(over)
		g.Wait()
		for _, c := range direct {
			if len(c.manifests) == 0 || c.version == 0 {
				t.Errorf("a consumer of %s has seen no edition", c.url)
			}
			t.Logf("a consumer of %s read %d editions, and %d requests failed", c.url, len(c.manifests), c.failures)
		}
		d.checkReaders(&byFTP, &byProxy, &closed, &quota)
	}
}

// Limits of accounts with a quota.
const (
	quotaBytes = 1 << 20
	quotaRate  = 64 << 10 // at each process

	// late is how many seconds at that rate an account may get beyond its quota from three
	// processes: they know of each other's bytes five seconds later, and complete what they have
	// begun.
	late = 3 * (5 + 5)
)

// calmQuota checks a quota while nothing is disturbed. It is such that processes that each counted
// for themselves would exceed it.
func (d *deployment) calmQuota() {
	const quota = 2 * quotaBytes
	d.account("calm", nil, quota)
	var got reader
	var all sync.WaitGroup
	for _, s := range d.role("serve") {
		all.Go(func() {
			for own := new(reader); own.refused.Load() == 0 && got.bytes.Load() < 4*quota; {
				before := own.bytes.Load()
				d.fetchSome(s.url(), "calm", own)
				got.bytes.Add(own.bytes.Load() - before)
			}
		})
	}
	all.Wait()
	if n := got.bytes.Load(); n < quota || n > quota+late*quotaRate {
		d.t.Errorf("with a quota of %d bytes an account got %d from three processes that work", quota, n)
	} else {
		d.t.Logf("with a quota of %d bytes an account got %d from three processes that work", quota, n)
	}
}

func (d *deployment) checkReaders(byFTP, byProxy, closed, quota *reader) {
	for what, r := range map[string]*reader{"by FTP": byFTP, "through the proxy": byProxy} {
		d.t.Logf("a consumer %s read %d files of %d bytes", what, r.looks.Load(), r.bytes.Load())
		if r.looks.Load() == 0 {
			d.t.Errorf("the consumer %s read nothing", what)
		}
	}
	if closed.looks.Load() > 0 || closed.refused.Load() == 0 {
		d.t.Errorf("outside its window an account got %d files, and was refused %d times", closed.looks.Load(), closed.refused.Load())
	}
	// What serve/account promises: a killed process also loses the count of its last five
	// seconds, and without the database each has a count of its own.
	seconds := late + (5+1)*d.kills["serve"] + 3*(int(d.outage.Seconds())+5*d.outages)
	most := int64(quotaBytes + seconds*quotaRate)
	d.t.Logf("with a quota of %d bytes an account got %d, at most allowed are %d", quotaBytes, quota.bytes.Load(), most)
	if got := quota.bytes.Load(); got > most || got < quotaBytes {
		d.t.Errorf("with a quota of %d bytes an account got %d", quotaBytes, got)
	}
}

// someFile returns a path of all of a host that has something.
func (d *deployment) someFile() (host, path string) {
	m := pick(d.t, d.members)
	host = m.hosts[0]
	return host, "/" + naming.HostPath(host) + "/all.tar.gz"
}

// fetchSome fetches a file, as an account unless that is "", and looks at what it gets.
func (d *deployment) fetchSome(url, as string, r *reader) {
	host, path := d.someFile()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, url+"/pub"+path, nil)
	if err != nil {
		d.t.Error(err)
		return
	}
	if as != "" {
		req.SetBasicAuth(as, as+"'s")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // it was killed
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case strings.Contains(string(data), "window_closed") || strings.Contains(string(data), "quota_used_up"):
		r.refused.Add(1)
	case resp.StatusCode == http.StatusOK:
		r.bytes.Add(int64(len(data)))
		if err == nil {
			r.looks.Add(1)
			d.right(host, data)
		}
	case resp.StatusCode == http.StatusUnauthorized:
		d.t.Errorf("%s: %s is not let in: %s", url, as, data)
	}
}

// retrieveSome is fetchSome by FTP, through the relay.
func (d *deployment) retrieveSome(r *reader) {
	host, path := d.someFile()
	conn, err := ftp.Dial(d.settings["download.listen"].(string), ftp.DialWithTimeout(20*time.Second))
	if err != nil {
		return // the process was killed
	}
	defer conn.Quit()
	if conn.Login("anonymous", "test@example.jp") != nil {
		return
	}
	file, err := conn.Retr(path)
	if err != nil {
		return
	}
	data, err := io.ReadAll(file)
	if errors.Join(err, file.Close()) == nil { // the server said that it is complete
		r.looks.Add(1)
		r.bytes.Add(int64(len(data)))
		d.right(host, data)
	}
}

// right checks that a file has pages that were sent, each once.
func (d *deployment) right(host string, tarGz []byte) {
	sent := map[string][]byte{}
	for _, c := range d.all() {
		for _, p := range c.pages {
			if p.host == host {
				sent[naming.FileName(p.host, p.url)] = p.body
			}
		}
	}
	if _, err := pagesOf(tarGz, sent); err != nil {
		d.t.Errorf("%s: %v", host, err)
	}
}

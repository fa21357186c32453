package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/testkit"
	"sheaf/test/servicetest"
)

// home is the data directory of the image.
const home = "/var/lib/sheaf"

// loadSettings reads a settings file as the program does in a container, with the image's variables
// and the container's. Every variable must be a setting's.
func loadSettings(t *testing.T, file string, environment map[string]string, overrides map[string]any) (service.Config, error) {
	t.Helper()
	all := viper.New()
	all.SetConfigFile(filepath.Join(testkit.Root(t), "deploy", "sheaf.yaml"))
	testkit.Must(t, all.ReadInConfig())
	known := map[string]bool{}
	for _, key := range all.AllKeys() {
		known["SHEAF_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = true
	}
	t.Setenv("SHEAF_DATA", home)
	for name, value := range environment {
		if !known[name] {
			t.Errorf("%s is no setting's variable", name)
		}
		t.Setenv(name, value)
	}
	return service.Load(file, overrides)
}

// misspelt returns a copy of a file with one key misspelt.
func misspelt(t *testing.T, file, key string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	changed := strings.Replace(string(text), key+":", key+"x:", 1)
	if changed == string(text) {
		t.Fatalf("%s has no key %s", file, key)
	}
	name := filepath.Join(t.TempDir(), filepath.Base(file))
	testkit.Must(t, os.WriteFile(name, []byte(changed), 0o600))
	return name
}

// The Compose project is one that docker compose takes, its settings are ones that the program
// takes, and processes, ports and proxy fit together.
func TestComposeFits(t *testing.T) {
	testkit.Slow(t)
	dir := filepath.Join(testkit.Root(t), "deploy", "compose")
	project := servicetest.LoadCompose(t)
	for _, key := range []string{"restart", "read_only", "ipv4_address"} {
		if _, err := servicetest.DecodeManifests(t, "compose", misspelt(t, dir+"/compose.yaml", key)); err == nil {
			t.Errorf("a misspelt key %s is taken", key)
		}
	}
	proxy := project.Services["proxy"]
	conf, err := os.ReadFile(proxy.Mounted("/etc/nginx/nginx.conf"))
	testkit.Must(t, err)
	count := map[string]int{}
	want := map[string][]string{} // addresses by nginx's upstream
	for _, name := range project.Nodes() {
		t.Run(name, func(t *testing.T) {
			c := project.Services[name]
			if !slices.Equal(c.Command, []string{"serve", "--config", "/etc/sheaf/sheaf.yaml"}) {
				t.Fatalf("its command is %q", c.Command)
			}
			file := c.Mounted("/etc/sheaf/sheaf.yaml")
			cfg, err := loadSettings(t, file, c.Environment, nil)
			testkit.Must(t, err)
			if _, err := loadSettings(t, misspelt(t, file, "accepted"), nil, nil); err == nil {
				t.Error("settings with a misspelt key are taken")
			}
			if len(cfg.Roles) != 1 || !strings.HasPrefix(name, cfg.Roles[0]) {
				t.Fatalf("its roles are %q", cfg.Roles)
			}
			count[cfg.Roles[0]]++
			want[cfg.Roles[0]] = append(want[cfg.Roles[0]], beyond(c, cfg.HTTP.Listen))
			var ports []int
			switch cfg.Roles[0] {
			case "ingest":
				ports = cfg.Drop.Ports
				want["drop"] = append(want["drop"], beyond(c, cfg.Drop.Listen))
			case "serve":
				ports = cfg.Download.Ports
				want["download"] = append(want["download"], beyond(c, cfg.Download.Listen))
			}
			checkPublished(t, c, ports)
			for _, list := range [][]string{cfg.HTTP.Proxies, cfg.Download.Proxies, cfg.Drop.Proxies} {
				if !slices.Equal(list, []string{proxy.Address()}) {
					t.Errorf("it trusts the proxies %q; there is %s", list, proxy.Address())
				}
			}
			if cfg.Database.Seal == "" || cfg.Database.URL == "" || cfg.Ingest.Uploads.Accepted != "store" || cfg.Store.Kind != "s3" {
				t.Error("it needs a directory that others have too")
			}
			if !c.ReadOnly || c.User != "65532:65532" || !slices.ContainsFunc(c.Volumes, func(v struct{ Type, Source, Target string }) bool { return v.Target == cfg.Data }) {
				t.Errorf("it is user %s, read_only %t, with %+v", c.User, c.ReadOnly, c.Volumes)
			}
		})
	}
	if !maps.Equal(count, map[string]int{"manager": 2, "ingest": 3, "serve": 3}) {
		t.Errorf("there are %v", count)
	}
	if got := upstreams(string(conf)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("nginx leads to\n%v; there are\n%v", got, want)
	}
	var open []int
	for _, p := range proxy.Ports {
		open = append(open, p.Target)
	}
	if got := listens(t, string(conf)); !slices.Equal(got, open) {
		t.Errorf("nginx listens at %v; published are %v", got, open)
	}
}

// beyond returns host:port at which others reach what listens in a container.
func beyond(c servicetest.Container, listen string) string {
	return c.Address() + listen[strings.LastIndex(listen, ":"):]
}

// checkPublished checks that exactly the ports from ports[0] to ports[1] are published, unchanged.
func checkPublished(t *testing.T, c servicetest.Container, ports []int) {
	t.Helper()
	var want []int
	if len(ports) == 2 && ports[0] > 0 {
		for p := ports[0]; p <= ports[1]; p++ {
			want = append(want, p)
		}
	}
	var got []int
	for _, p := range c.Ports {
		if p.Published != strconv.Itoa(p.Target) {
			t.Errorf("port %d is published as %s", p.Target, p.Published)
		}
		got = append(got, p.Target)
	}
	if !slices.Equal(got, want) {
		t.Errorf("published are %v, the settings say %v", got, ports)
	}
}

// upstreams returns the servers of each upstream in nginx's settings.
func upstreams(conf string) map[string][]string {
	list := map[string][]string{}
	for _, block := range regexp.MustCompile(`(?s)upstream (\w+) \{(.*?)\}`).FindAllStringSubmatch(conf, -1) {
		for _, server := range regexp.MustCompile(`\bserver (\S+?)[ ;]`).FindAllStringSubmatch(block[2], -1) {
			list[block[1]] = append(list[block[1]], server[1])
		}
	}
	return list
}

func listens(t *testing.T, conf string) (ports []int) {
	for _, m := range regexp.MustCompile(`\blisten (\d+);`).FindAllStringSubmatch(conf, -1) {
		p, err := strconv.Atoi(m[1])
		testkit.Must(t, err)
		ports = append(ports, p)
	}
	return ports
}

// leadsTo returns which upstream each location has.
func leadsTo(conf string) map[string]string {
	to := map[string]string{}
	for _, m := range regexp.MustCompile(`location (= )?(\S+) \{ proxy_pass http://(\w+); \}`).FindAllStringSubmatch(conf, -1) {
		to[m[2]] = m[3]
	}
	return to
}

// object is what the test looks at of a Kubernetes object.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Secrets  map[string]string `json:"stringData"`
	Spec     struct {
		Selector json.RawMessage
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
		Ports []struct{ TargetPort any }
		Claim []struct{ Metadata struct{ Name string } } `json:"volumeClaimTemplates"`
	}
}

type podSpec struct {
	SecurityContext struct {
		RunAsNonRoot bool
		RunAsUser    int
	}
	Containers []struct {
		Image   string
		Args    []string
		EnvFrom []struct{ SecretRef struct{ Name string } }
		Ports   []struct {
			Name          string
			ContainerPort int
		}
		StartupProbe, LivenessProbe, ReadinessProbe struct {
			HTTPGet struct{ Path, Port string }
		}
		SecurityContext struct{ ReadOnlyRootFilesystem bool }
		Resources       struct{ Requests, Limits map[string]string }
		VolumeMounts    []struct{ Name, MountPath string }
	}
	Volumes []struct {
		Name      string
		ConfigMap struct{ Name string }
	}
}

// selects returns the labels by which an object finds pods.
func (o object) selects(t *testing.T) (labels map[string]string) {
	t.Helper()
	var nested struct{ MatchLabels map[string]string }
	if json.Unmarshal(o.Spec.Selector, &nested) == nil && nested.MatchLabels != nil {
		return nested.MatchLabels
	}
	testkit.Must(t, json.Unmarshal(o.Spec.Selector, &labels))
	return labels
}

// The Kubernetes objects have no field that Kubernetes does not know, their settings are ones that
// the program takes, their probes are answered by a service, and selectors find the pods.
func TestKubernetesFits(t *testing.T) {
	testkit.Slow(t)
	dir := filepath.Join(testkit.Root(t), "deploy", "kubernetes")
	files := []string{dir + "/sheaf.yaml", dir + "/proxy.yaml", dir + "/example/secret.yaml"}
	out, err := servicetest.DecodeManifests(t, "kubernetes", files...)
	testkit.Must(t, err)
	var all []object
	testkit.Must(t, json.Unmarshal(out, &all))
	for _, key := range []string{"replicas", "readinessProbe", "matchLabels", "maxUnavailable"} {
		if _, err := servicetest.DecodeManifests(t, "kubernetes", misspelt(t, files[0], key)); err == nil {
			t.Errorf("a misspelt key %s is taken", key)
		}
	}
	named := map[string]object{}
	pods := map[string]map[string]string{} // labels by the controller's name
	for _, o := range all {
		named[o.Kind+" "+o.Metadata.Name] = o
		if o.Spec.Template.Metadata.Labels != nil {
			pods[o.Metadata.Name] = o.Spec.Template.Metadata.Labels
		}
		if o.Kind != "Namespace" && o.Metadata.Namespace != "sheaf" {
			t.Errorf("%s %s is in the namespace %q", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
		}
	}
	for _, o := range all {
		if o.Spec.Selector != nil && !maps.Equal(o.selects(t), pods[o.Metadata.Name]) {
			t.Errorf("%s %s selects %v; its pods have %v", o.Kind, o.Metadata.Name, o.selects(t), pods[o.Metadata.Name])
		}
	}
	for _, name := range []string{"manager", "ingest", "serve", "proxy"} {
		if pods[name] == nil || named["PodDisruptionBudget "+name].Kind == "" || named["Service "+name].Kind == "" {
			t.Errorf("%s lacks a controller, a budget for disruptions or a service", name)
		}
	}
	running := servicetest.Start(t, nil)
	for _, name := range []string{"StatefulSet manager", "StatefulSet ingest", "Deployment serve"} {
		t.Run(name, func(t *testing.T) { checkNode(t, running, named, named[name]) })
	}
	compose, err := os.ReadFile(filepath.Join(dir, "..", "compose", "nginx.conf"))
	testkit.Must(t, err)
	here, there := leadsTo(named["ConfigMap proxy"].Data["nginx.conf"]), leadsTo(string(compose))
	if !maps.Equal(here, there) || len(here) < 7 {
		t.Errorf("the proxy leads to %v, that of compose to %v", here, there)
	}
}

// checkNode checks the pods of one role.
func checkNode(t *testing.T, running *servicetest.Service, named map[string]object, o object) {
	role := o.Metadata.Name
	spec := o.Spec.Template.Spec
	c := spec.Containers[0]
	if !slices.Equal(c.Args, []string{"serve", "--config", "/etc/sheaf/sheaf.yaml", "--roles", role}) {
		t.Fatalf("its arguments are %q", c.Args)
	}
	file := filepath.Join(t.TempDir(), "sheaf.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(named["ConfigMap "+spec.Volumes[0].ConfigMap.Name].Data["sheaf.yaml"]), 0o600))
	secret := named["Secret "+c.EnvFrom[0].SecretRef.Name].Secrets
	if _, err := loadSettings(t, file, secret, map[string]any{"roles": role}); err == nil || !strings.Contains(err.Error(), "database.seal") {
		t.Errorf("the example's seal is taken: %v", err)
	}
	secret = maps.Clone(secret)
	secret["SHEAF_DATABASE_SEAL"] = servicetest.ComposeSeal
	cfg, err := loadSettings(t, file, secret, map[string]any{"roles": role})
	testkit.Must(t, err)
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = fmt.Sprint(":", p.ContainerPort)
	}
	if !strings.HasSuffix(cfg.HTTP.Listen, ports["http"]) || !strings.HasSuffix(cfg.Observe.Metrics, ports["metrics"]) || len(ports) != 2 {
		t.Errorf("its ports are %v, the settings' %s and %s", ports, cfg.HTTP.Listen, cfg.Observe.Metrics)
	}
	if target := named["Service "+role].Spec.Ports[0].TargetPort; target != "http" {
		t.Errorf("its service leads to port %v", target)
	}
	for what, probe := range map[string]struct{ Path, Port string }{"startup": c.StartupProbe.HTTPGet, "liveness": c.LivenessProbe.HTTPGet, "readiness": c.ReadinessProbe.HTTPGet} {
		resp, err := http.Get(running.At.HTTP + probe.Path)
		testkit.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || probe.Port != "http" {
			t.Errorf("its %s probe asks %s at port %s, and gets %s", what, probe.Path, probe.Port, resp.Status)
		}
	}
	if !strings.HasSuffix(c.ReadinessProbe.HTTPGet.Path, "role="+role) {
		t.Errorf("its readiness is %s", c.ReadinessProbe.HTTPGet.Path)
	}
	if !spec.SecurityContext.RunAsNonRoot || spec.SecurityContext.RunAsUser != 65532 || !c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("it runs as %+v, %+v", spec.SecurityContext, c.SecurityContext)
	}
	if c.Resources.Requests["cpu"] == "" || c.Resources.Limits["memory"] == "" {
		t.Errorf("its resources are %+v", c.Resources)
	}
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
	}
	for _, claim := range o.Spec.Claim {
		volumes[claim.Metadata.Name] = true
	}
	mounted := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounted[m.MountPath] = volumes[m.Name]
	}
	if !mounted[cfg.Data] || !mounted["/etc/sheaf"] || !mounted["/tmp"] {
		t.Errorf("mounted are %v of %v", mounted, volumes)
	}
}

// nginx takes the settings of the proxy in Kubernetes. Names are known in a cluster only, and the
// parameter "resolve" to newer versions than Debian's.
func TestProxyOfKubernetes(t *testing.T) {
	nginx := testkit.Tool(t, "nginx")
	testkit.Slow(t)
	out, err := servicetest.DecodeManifests(t, "kubernetes", filepath.Join(testkit.Root(t), "deploy", "kubernetes", "proxy.yaml"))
	testkit.Must(t, err)
	var all []object
	testkit.Must(t, json.Unmarshal(out, &all))
	conf := all[0].Data["nginx.conf"]
	if all[0].Kind != "ConfigMap" || !strings.Contains(conf, " resolve") {
		t.Fatalf("the first object is %s %s, with the settings %q", all[0].Kind, all[0].Metadata.Name, conf)
	}
	dir := t.TempDir()
	conf = regexp.MustCompile(`server \S+:8080 resolve`).ReplaceAllString(conf, "server 127.0.0.1:8080")
	conf = strings.NewReplacer("kube-dns.kube-system.svc.cluster.local", "127.0.0.1", "/tmp/", dir+"/").Replace(conf)
	file := filepath.Join(dir, "nginx.conf")
	testkit.Must(t, os.WriteFile(file, []byte(conf), 0o600))
	testkit.Run(t, dir, nginx, "-t", "-c", file, "-p", dir, "-e", "stderr")
}

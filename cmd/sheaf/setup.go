package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"aead.dev/minisign"
	"github.com/spf13/cobra"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/peer"
	"sheaf/internal/wire"
)

// setup has the answers of `sheaf setup`.
type setup struct {
	config, data     string
	name, address    string
	contact, store   string
	operator         string
	listen           string
	cert, key        string
	releaseKey       string
	set              []string
	operatorPassword string
}

func setupCommand() *cobra.Command {
	var s setup
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Set up a new installation: settings, data directory, first operator, release key",
		Long: `Write the settings of a new installation, make its data directory with its keys, the key that signs
the robots' programs, and the first operator. On a terminal it asks for what the flags do not give.
Nothing that exists is overwritten. The first operator's password may be given in
SHEAF_OPERATOR_PASSWORD and that of the release key in ` + admin.PasswordVariable + `; otherwise they are made up
and printed. Credentials of an S3 store are taken from SHEAF_STORE_ACCESS_KEY and
SHEAF_STORE_SECRET_KEY, and are not written.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.operatorPassword = os.Getenv("SHEAF_OPERATOR_PASSWORD")
			if _, err := os.Lstat(s.config); err == nil {
				return fmt.Errorf("%s exists already; sheaf setup changes nothing that exists", s.config)
			}
			if in := cmd.InOrStdin(); admin.IsTerminal(in) {
				return s.converse(cmd, in)
			}
			return s.run(cmd)
		},
	}
	config, data := "sheaf.yaml", "sheaf-data"
	if _, err := os.Stat(filepath.Dir(admin.PackagedConfig)); err == nil {
		config, data = admin.PackagedConfig, admin.PackagedData
	}
	f := cmd.Flags()
	f.StringVar(&s.config, "config", config, "the settings file to write")
	f.StringVar(&s.data, "data", data, "the data directory; it is made, or belongs to the user that the service runs as")
	f.StringVar(&s.name, "name", "Web archive", "the archive's name, for the pages")
	f.StringVar(&s.address, "address", "", "URL by which robots and readers reach the service, such as http://archive.example.jp:8080")
	f.StringVar(&s.contact, "contact", "", "mail address or URL for questions of readers and robots' sites")
	f.StringVar(&s.store, "store", "fs", "where archives lie: fs, in the data directory; or an S3 bucket, as https://ENDPOINT/BUCKET[/PREFIX]")
	f.StringVar(&s.operator, "operator", "admin", "the first operator's name")
	f.StringVar(&s.listen, "listen", "", "host:port to listen at (default: the address's port everywhere; for https without --cert, which a proxy must take, 127.0.0.1:8080)")
	f.StringVar(&s.cert, "cert", "", "PEM file of the certificate, to serve HTTPS without a proxy; with --key")
	f.StringVar(&s.key, "key", "", "PEM file of the certificate's key")
	f.StringVar(&s.releaseKey, "release-key", "", `file for the release key (default release.key beside the settings); "none" makes none`)
	f.StringArrayVar(&s.set, "set", nil, "one more setting to write, such as --set publish.window=always; may be given several times")
	return cmd
}

// answer is a value that a flag or the question of the same name gives.
type answer struct {
	flag, text string
	to         *string
	check      func(string) error
}

func (s *setup) answers() []answer {
	return []answer{
		{"name", "Name of the archive", &s.name, func(string) error { return nil }},
		{"address", "URL by which robots and readers reach it", &s.address, checkAddress},
		{"contact", "Mail address or URL for questions", &s.contact, wire.CheckContact},
		{"store", "Store: fs, or an S3 bucket as https://ENDPOINT/BUCKET", &s.store, checkStoreURL},
		{"operator", "Name of the first operator", &s.operator, checkOperator},
	}
}

func checkAddress(text string) error {
	if u, err := url.Parse(text); err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q: want a URL, such as http://archive.example.jp:8080", text)
	}
	return nil
}

func checkStoreURL(text string) error {
	if u, err := url.Parse(text); text != "fs" && (err != nil || u.Host == "" || u.User != nil) {
		return fmt.Errorf("%q: want fs, or a bucket as https://ENDPOINT/BUCKET[/PREFIX], without credentials", text)
	}
	return nil
}

func checkOperator(name string) error {
	if !operators.ValidName(name) {
		return fmt.Errorf("name %q: want 1 to 63 lower-case letters, digits, dots, hyphens or underscores", name)
	}
	return nil
}

// ask asks for values that the flags do not give, and again for values that cannot be used. An
// empty answer takes the value that the question shows. asked is the number of questions.
func (s *setup) ask(cmd *cobra.Command, lines *bufio.Scanner) (asked int, err error) {
	for _, q := range s.answers() {
		if cmd.Flags().Changed(q.flag) {
			continue
		}
		asked++
		for {
			fmt.Fprintf(cmd.OutOrStdout(), "%s [%s]: ", q.text, *q.to)
			if !lines.Scan() {
				return asked, cmp.Or(lines.Err(), errors.New("the answers ended before the questions; nothing was made"))
			}
			*q.to = cmp.Or(strings.TrimSpace(lines.Text()), *q.to)
			wrong := q.check(*q.to)
			if wrong == nil {
				break
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%v\n", wrong)
		}
	}
	return asked, nil
}

// converse asks until an installation can be made. Later questions show the earlier answers.
func (s *setup) converse(cmd *cobra.Command, in io.Reader) error {
	host, _ := os.Hostname()
	s.address = cmp.Or(s.address, "http://"+cmp.Or(host, "127.0.0.1")+":8080")
	for lines := bufio.NewScanner(in); ; {
		asked, err := s.ask(cmd, lines)
		if err != nil {
			return err
		}
		if err = s.run(cmd); err == nil || asked == 0 {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%v\nNothing was set up. Once more, or Ctrl-C:\n", err)
	}
}

// run makes the installation. It writes the settings last, so that an installation has settings
// only if everything else has succeeded.
func (s *setup) run(cmd *cobra.Command) (err error) {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	written := s.config + ".new"
	text, err := yaml.Marshal(settings)
	if err != nil {
		return err
	}
	head := "# Settings of the service; deploy/sheaf.yaml in the sources, or below /usr/share/doc/sheaf, shows all of them.\n"
	if err := os.WriteFile(written, append([]byte(head), text...), 0o640); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(written)) }()
	cfg, err := service.Load(written, nil)
	if err != nil {
		return err
	}
	first := service.First{Operator: s.operator, Password: s.operatorPassword}
	keyFile, keyPassword, err := s.makeReleaseKey(&first)
	if err != nil {
		return err
	}
	err = asOwner(s.data, written, func() (err error) {
		first.Password, err = service.Setup(cmd.Context(), cfg, first, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})))
		return err
	})
	if err != nil && keyPassword != "" {
		err = errors.Join(err, os.Remove(keyFile)) // nobody knows its password
	}
	if err != nil {
		return err
	}
	if err := os.Link(written, s.config); err != nil { // a link, unlike a rename, replaces no file
		return err
	}
	s.tell(cmd.OutOrStdout(), cfg, first.Password, keyFile, keyPassword)
	return nil
}

// settings returns the settings to write.
func (s *setup) settings() (map[string]any, error) {
	var wrong []error
	for _, q := range s.answers() {
		if *q.to == "" {
			wrong = append(wrong, fmt.Errorf("--%s is missing", q.flag))
		} else if err := q.check(*q.to); err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %w", q.flag, err))
		}
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	data, err := filepath.Abs(s.data)
	if err != nil {
		return nil, err
	}
	all := map[string]any{"data": data, "site.name": s.name, "access.contact": s.contact, "http.public": s.address}
	u, err := url.Parse(s.address)
	if err != nil {
		return nil, err
	}
	all["http.listen"] = s.listenAt(u)
	if !peer.IsLoopback(u.Hostname()) && !s.behindProxy() {
		all["download.listen"], all["download.ports"] = ":2121", []int{50000, 50999} // a range that a firewall can let through
	}
	if s.cert != "" || s.key != "" {
		all["tls.cert"], all["tls.key"] = s.cert, s.key
	}
	if s.store != "fs" {
		u, err := url.Parse(s.store)
		if err != nil {
			return nil, err
		}
		bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
		all["store.kind"], all["store.endpoint"], all["store.bucket"] = "s3", u.Scheme+"://"+u.Host, bucket
		if prefix != "" {
			all["store.prefix"] = prefix
		}
	}
	more, err := admin.SplitSettings(s.set)
	maps.Copy(all, more)
	// This turns keys such as http.listen into the sections of a settings file. A section that is
	// itself given a value comes after its keys, and so hides them and is refused by service.Load.
	file := viper.New()
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		file.Set(key, all[key])
	}
	return file.AllSettings(), err
}

// behindProxy reports whether only a proxy can serve the address: it is https, and the service has
// no certificate.
func (s *setup) behindProxy() bool { return strings.HasPrefix(s.address, "https:") && s.cert == "" }

// listenAt returns the address at which to listen for the service's URL.
func (s *setup) listenAt(u *url.URL) string {
	switch {
	case s.listen != "":
		return s.listen
	case s.behindProxy():
		return "127.0.0.1:8080"
	}
	return ":" + cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// makeReleaseKey makes the release key, or reads the key in the file. It returns the file's name
// and, if it made the password up, the password.
func (s *setup) makeReleaseKey(first *service.First) (file, madeUp string, err error) {
	if s.releaseKey == "none" {
		return "", "", nil
	}
	file = cmp.Or(s.releaseKey, filepath.Join(filepath.Dir(s.config), "release.key"))
	password := os.Getenv(admin.PasswordVariable)
	if _, err := os.Stat(file); password == "" && errors.Is(err, os.ErrNotExist) {
		madeUp = passwords.New()
	}
	private, err := admin.MakeOrReadKey(file, cmp.Or(password, madeUp))
	if err != nil {
		return "", "", err
	}
	first.ReleaseKey = private.Public().(minisign.PublicKey).String()
	return file, madeUp, nil
}

// tell prints what was made and what to do next.
func (s *setup) tell(w io.Writer, cfg service.Config, password, keyFile, keyPassword string) {
	start, options := "sheaf serve --config "+s.config, " --config "+s.config
	if s.config == admin.PackagedConfig {
		start, options = "systemctl enable --now sheaf", "" // the commands find the settings there
	}
	fmt.Fprintf(w, "%s has the settings, %s the data and the service's keys.\n", s.config, s.data)
	fmt.Fprintf(w, "Operator %s has the password %s\n", s.operator, password)
	if keyFile != "" {
		fmt.Fprintf(w, "%s signs the robots' programs. Move it to another machine: whoever has it and its password can replace them.\n", keyFile)
	}
	if keyPassword != "" {
		fmt.Fprintf(w, "Its password is %s\n", keyPassword)
	}
	fmt.Fprintf(w, "These passwords are not shown again.\n\nNext:\n  %s\n  sheaf robot add NAME%s        # prints the command for the robot's site\n"+
		"  sheaf host add http://www.example.jp/%s\n", start, options, options)
	if s.behindProxy() {
		fmt.Fprintf(w, "A proxy must take %s and pass it on to %s; name it in http.proxies.\n", s.address, cfg.HTTP.Listen)
	}
	s.tellFTP(w, &cfg.Download)
}

// tellFTP prints where readers reach FTP.
func (s *setup) tellFTP(w io.Writer, d *service.Download) {
	u, err := url.Parse(s.address)
	if err != nil || d.Listen == "" {
		return
	}
	at := peer.Announce(d.Listen, u.Hostname())
	if at == "" || peer.IsLoopback(u.Hostname()) {
		fmt.Fprintf(w, "FTP is at %s, for this machine alone; for others set download.listen, and download.public behind address translation.\n", d.Listen)
		return
	}
	fmt.Fprintf(w, "Readers find FTP at ftp://%s/. ", at)
	if d.Ports[1] > 0 {
		fmt.Fprintf(w, "A firewall must also let ports %d to %d through. ", d.Ports[0], d.Ports[1])
	}
	fmt.Fprintln(w, "Behind address translation set download.public.")
}

// asOwner runs work as the owner of a directory, if this process is root and the directory is
// another user's. The service runs as that user, and must be able to read the files that work
// makes. The settings file becomes readable to the owner's group. Nothing else in this process may
// run meanwhile.
func asOwner(dir, settings string, work func() error) (err error) {
	info, statErr := os.Stat(dir)
	if statErr != nil || os.Geteuid() != 0 {
		return work() // work makes the directory if there is none
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return work()
	}
	if err := os.Chown(settings, 0, int(owner.Gid)); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setresgid(-1, int(owner.Gid), -1), syscall.Setresuid(-1, int(owner.Uid), -1)); err != nil {
		return fmt.Errorf("become the owner of %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, syscall.Setresuid(-1, 0, -1), syscall.Setresgid(-1, 0, -1)) }()
	return work()
}

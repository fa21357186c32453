package admin

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"sheaf/internal/route"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/roster"
	"sheaf/serve/client"
)

func ReleaseCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{
		Use:   "release",
		Short: "Sign, publish and roll out the robots' program",
		Long: `Robots only accept a program that is signed with the operators' secret key. The service never has the
key: keep it on another machine.`,
	})
	cmd.AddCommand(releaseKeyCommand(), releasePublishCommand(), asks("ls", "List the releases and how far each is rolled out", manager.ListReleases, releasesTable), releaseRolloutCommand())
	return cmd
}

// PasswordVariable names the environment variable with the secret key's password.
const PasswordVariable = "SHEAF_RELEASE_PASSWORD"

func releaseKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key FILE",
		Short: "Make a key for releases, unless FILE is one, and register its public half with the service",
		Long: `FILE is a secret key in minisign's format, encrypted with the password in ` + PasswordVariable + `.
Robots learn the public half when they join, and trust no other key afterwards.`,
	}
	replace := cmd.Flags().Bool("replace", false, "replace a registered key, for the robots that join from now on")
	cmd.RunE = AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
		private, err := MakeOrReadKey(args[0], os.Getenv(PasswordVariable))
		if err != nil {
			return err
		}
		public := private.Public().(minisign.PublicKey)
		request := manager.ReleaseKeyRequest{Key: public.String(), Replace: *replace}
		return ask(cmd, c, manager.SetReleaseKey, request, func(w io.Writer, answer manager.ReleaseKeyResponse) {
			fmt.Fprintf(w, "%s\n\nThis public key is registered. Keep %s and its password safe: without them the robots cannot be upgraded.\n", answer.Key, args[0])
		})
	})
	return cmd
}

// MakeOrReadKey reads the secret key in a file. If there is no file, it makes a key and writes it
// there, encrypted with the password.
func MakeOrReadKey(path, password string) (minisign.PrivateKey, error) {
	private, err := readKey(path)
	if !errors.Is(err, os.ErrNotExist) {
		return private, err
	}
	if password == "" {
		return private, fmt.Errorf("%s: a new key needs a password in %s", path, PasswordVariable)
	}
	if _, private, err = minisign.GenerateKey(nil); err != nil {
		return private, err
	}
	text, err := minisign.EncryptKey(password, private)
	if err != nil {
		return private, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return private, err
	}
	_, err = f.Write(append(text, '\n'))
	return private, errors.Join(err, f.Sync(), f.Close())
}

func readKey(path string) (minisign.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return minisign.PrivateKey{}, err
	}
	if !minisign.IsEncrypted(text) {
		var private minisign.PrivateKey
		if err := private.UnmarshalText(text); err != nil {
			return private, fmt.Errorf("%s: %w", path, err)
		}
		return private, nil
	}
	private, err := minisign.DecryptKey(os.Getenv(PasswordVariable), text)
	if err != nil {
		return private, fmt.Errorf("%s: %w; is its password in %s?", path, err, PasswordVariable)
	}
	return private, nil
}

func releasePublishCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish FILE…",
		Short: "Sign robotd programs, one for each platform, and begin to roll them out",
		Long: `Each FILE is a robotd as go build makes it. The release is offered to 1 % of the robots, then to 10 %,
then to all. A stage begins when the robots of the stage before have reported with the new release. The
roll-out stops if robots go back to their old program.`,
	}
	key := cmd.Flags().String("key", "", "file with the secret key (required); its password is in "+PasswordVariable)
	version := cmd.Flags().String("version", "", "the release's version (default: what the programs say)")
	life := cmd.Flags().Duration("life", 180*24*time.Hour, "how long robots accept the release; publish another one before that")
	floor := cmd.Flags().Int64("floor", 0, "the lowest counter that robots may run; robots with a lower one upgrade at once, and get no list of hosts before")
	soak := cmd.Flags().Duration("soak", time.Hour, "the minimum time of each stage")
	cmd.RunE = AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
		if *key == "" {
			return errors.New("--key is missing: the file that sheaf release key made")
		}
		private, err := readKey(*key)
		if err != nil {
			return err
		}
		programs, err := readPrograms(args)
		if err != nil {
			return err
		}
		r := wire.Release{Expires: time.Now().Add(*life).UTC().Truncate(time.Second), Floor: *floor}
		if r.Version, err = versionOf(programs, *version); err != nil {
			return err
		}
		for _, p := range programs {
			r.Files = append(r.Files, p.ReleaseFile)
		}
		if err := follow(cmd, c, &r); err != nil {
			return err
		}
		text, err := r.Format()
		if err != nil {
			return err
		}
		for _, p := range programs {
			if err := sendProgram(cmd, c, p); err != nil {
				return err
			}
		}
		request := manager.PublishRequest{
			Offer: wire.Offer{Release: string(text), Signature: string(minisign.Sign(private, text))},
			Soak:  roster.Seconds(*soak / time.Second),
		}
		if err := tell(cmd, c, manager.Publish, request); err != nil {
			return err
		}
		return ask(cmd, c, manager.ListReleases, route.None{}, releasesTable)
	})
	return cmd
}

// follow gives a release the next counter after the latest release's, and at least the latest
// release's floor.
func follow(cmd *cobra.Command, c *client.Client, r *wire.Release) error {
	list, err := client.Call(cmd.Context(), c, manager.ListReleases, route.None{})
	if err != nil {
		return err
	}
	r.Counter = 1
	if len(list.Releases) > 0 {
		r.Counter = list.Releases[0].Counter + 1
		r.Floor = max(r.Floor, list.Releases[0].Floor)
	}
	return nil
}

// versionOf returns given or, if that is empty, the version that all programs have. It fails if
// they differ.
func versionOf(programs []program, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	for _, p := range programs {
		if p.version == "" || p.version != programs[0].version {
			return "", fmt.Errorf("%s says version %q, %s says %q; give --version", programs[0].path, programs[0].version, p.path, p.version)
		}
	}
	return programs[0].version, nil
}

func releasesTable(w io.Writer, answer manager.ReleasesResponse) {
	Table(w, "counter\tversion\tplatforms\texpires\toffered to\trobots\tput back\tstopped", answer.Releases, func(r roster.Release) []any {
		return []any{r.Counter, r.Version, strings.Join(r.Platforms, " "), Moment(r.Expires), fmt.Sprintf("%d %%", r.Percent), r.Robots, r.Failed, cmp.Or(r.Stopped, "-")}
	})
}

func releaseRolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout COUNTER",
		Short: "Offer a release to more robots, stop its roll-out, or continue it",
	}
	percent := cmd.Flags().Int("percent", 0, "percentage of the robots that are offered it, 1 to 100 (default: no change)")
	stop := cmd.Flags().String("stop", "", "stop the roll-out, for this reason; robots that run the release keep it")
	cmd.RunE = AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
		counter, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a counter; sheaf release ls lists them", args[0])
		}
		list, err := client.Call(cmd.Context(), c, manager.ListReleases, route.None{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.Releases, func(r roster.Release) bool { return r.Counter == counter })
		if i < 0 {
			return fmt.Errorf("there is no release %d", counter)
		}
		request := manager.RolloutRequest{Percent: cmp.Or(*percent, list.Releases[i].Percent), Stopped: *stop}
		if err := tell(cmd, c, manager.RollOut, route.At[manager.RolloutRequest]{Name: args[0], Body: request}); err != nil {
			return err
		}
		return ask(cmd, c, manager.ListReleases, route.None{}, releasesTable)
	})
	return cmd
}

// program is a robotd program file.
type program struct {
	wire.ReleaseFile
	path    string
	version string // empty if the build does not say
}

// versionSet finds the version in a build's -ldflags.
var versionSet = regexp.MustCompile(`-X[= ]'?sheaf/robotd\.Version=([^\s'"]+)`)

// readPrograms reads the build information in each program: its package, platform and version. It
// returns the programs sorted by platform.
func readPrograms(paths []string) ([]program, error) {
	var programs []program
	for _, path := range paths {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s is not a robotd: %w", path, err)
		}
		if info.Path != "sheaf/cmd/robotd" {
			return nil, fmt.Errorf("%s is not a robotd: it was built from %s", path, info.Path)
		}
		p := program{path: path}
		var system, machine string
		for _, s := range info.Settings {
			switch s.Key {
			case "GOOS":
				system = s.Value
			case "GOARCH":
				machine = s.Value
			case "-ldflags":
				if m := versionSet.FindStringSubmatch(s.Value); m != nil {
					p.version = m[1]
				}
			}
		}
		p.Platform = system + "-" + machine
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		p.SHA256, p.Size, err = wire.DigestOf(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	slices.SortFunc(programs, func(a, b program) int { return strings.Compare(a.Platform, b.Platform) })
	return programs, nil
}

// sendTime is the most time that sending one program may take.
const sendTime = 30 * time.Minute

func sendProgram(cmd *cobra.Command, c *client.Client, p program) error {
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	long := *c
	long.HTTP = client.Within(sendTime)
	ref, _ := manager.SendProgram.Call(p.SHA256)
	if err := long.Send(cmd.Context(), http.MethodPut, ref, "application/octet-stream", f, nil); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

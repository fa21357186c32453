package service

import "runtime/debug"

// release is the version of a packaged program, which deploy/packages sets by -ldflags.
var release string

// Version is the program's version as the build knows it: a package's version, a release's tag, or
// the commit that it was built from.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && info.Main.Version == "(devel)" {
			return s.Value[:12]
		}
	}
	return info.Main.Version
}

package service

import "runtime/debug"

// release is the version of a packaged program. deploy/packages sets it by -ldflags.
var release string

// Version returns the program's version: that of its package or its release's tag, or else the
// commit that it was built from.
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

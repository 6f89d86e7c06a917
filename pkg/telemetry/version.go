// Package telemetry builds what programs report about themselves with: a
// logger, a metrics registry and their own version. Which lines and metrics
// there are is left to the packages that write them.
package telemetry

import (
	"runtime/debug"
)

// version is set by the linker:
//
//	go build -ldflags "-X github.com/dlq-manager/dlq-manager/pkg/telemetry.version=1.2.3"
var version string

// Build says what a binary was made from. Unknown parts are empty.
type Build struct {
	Version   string // as given to the linker, else the module's version, else "dev"
	Revision  string // commit, with "-dirty" when the tree was changed
	GoVersion string
}

// Deployment is what the configuration calls the deployment that a program belongs to.
// Log lines and dlq_build_info have it. Empty parts are left out of log lines.
type Deployment struct{ Name, Version, Tier string }

// Version returns the version alone, for --version and log lines.
func Version() string { return ReadBuild().Version }

// ReadBuild returns what the linker and the Go toolchain put into this binary.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return build(version, info)
}

func build(linked string, info *debug.BuildInfo) Build {
	b := Build{Version: linked, GoVersion: info.GoVersion}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && b.Revision != "" {
		b.Revision += "-dirty"
	}
	return b
}

package telemetry

import (
	"runtime/debug"
)

// version is set by the linker:
//
//	go build -ldflags "-X github.com/dlq-manager/dlq-manager/pkg/telemetry.version=1.2.3"
var version string

// Build describes how a binary was made. Revision and GoVersion are empty when they are not known.
type Build struct {
	Version   string // as given to the linker, otherwise the module's version, otherwise "dev"
	Revision  string // commit, with "-dirty" when the work tree had changes
	GoVersion string
}

// Deployment identifies the deployment to which a program belongs. It is part of log lines and of dlq_build_info. Log
// lines omit empty fields.
type Deployment struct{ Name, Version, Tier string }

// Version returns the version alone, for log lines and spans.
func Version() string { return ReadBuild().Version }

// ReadBuild returns the build information of this binary, from the linker and the Go toolchain.
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

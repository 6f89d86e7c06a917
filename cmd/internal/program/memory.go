package program

import (
	"os"
	"runtime/debug"
)

const (
	// collectAt is how much garbage may gather before it is collected, in per cent
	// of what is alive. That is little here, some megabytes: with Go's default of 100
	// a program spends a sixth of its time on collecting them again and again.
	collectAt = 400

	// memoryLimit is what the runtime tries to keep within, in bytes, by collecting
	// more often: garbage may gather only as long as there is room. It is no bound on
	// what is alive, which the budgets for records under way are.
	memoryLimit = 96 << 20
)

// tuneMemory sets when garbage is collected, where the environment does not say so
// with GOGC or GOMEMLIMIT, which the Go runtime has read by itself.
func tuneMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// NeedMemory raises the limit for a program that is configured to have more alive
// than it leaves room for: it would collect without end. It never lowers it, and
// leaves alone what the environment says.
func NeedMemory(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" && bytes > debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(bytes)
	}
}

package program

import (
	"os"
	"runtime/debug"
)

const (
	// collectAt is the value of GOGC: the garbage that may accumulate, in per cent of the memory in use. The memory in
	// use is only some megabytes: with Go's default of 100, collecting garbage would take a sixth of the time of a
	// program.
	collectAt = 400

	// memoryLimit is the runtime's soft memory limit in bytes: when the program uses almost this much, the runtime
	// collects garbage more often. It does not limit the memory in use, which the budgets for buffered records limit. The
	// pages of the program file, up to 40 MB, come on top of it.
	memoryLimit = 80 << 20
)

// tuneMemory sets the parameters of the garbage collector. It leaves out those that the environment sets by GOGC or
// GOMEMLIMIT, which the Go runtime reads itself.
func tuneMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// NeedMemory raises the memory limit for a program whose configuration needs more memory: with a lower limit, the
// runtime would collect garbage all the time. It never lowers the limit and never overrides the environment.
func NeedMemory(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" && bytes > debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(bytes)
	}
}

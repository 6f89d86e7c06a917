package program

import (
	"os"
	"runtime/debug"
)

const (
	// collectAt is GOGC: the garbage that may accumulate, in per cent of the live heap. The live
	// heap is only some megabytes: with Go's default of 100, collection takes a sixth of a
	// program's time.
	collectAt = 400

	// memoryLimit is the runtime's soft memory limit in bytes: near it, the runtime collects more often. It does not
	// limit live memory; the budgets for buffered records limit live memory.
	memoryLimit = 96 << 20
)

// tuneMemory sets the collector's parameters, unless the environment sets GOGC or GOMEMLIMIT, which
// the Go runtime reads by itself.
func tuneMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// NeedMemory raises the memory limit for a program whose configuration needs more live memory: with a lower limit, the
// runtime would collect garbage all the time. It never lowers the limit and never overrides the environment.
func NeedMemory(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" && bytes > debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(bytes)
	}
}

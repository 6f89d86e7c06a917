package program

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// startProfile begins to write a CPU profile to path, for as long as the process
// lives: there is one profile in a process, and stopProfile completes it.
func startProfile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--cpu-profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		_ = file.Close()
		return fmt.Errorf("--cpu-profile: %w", err)
	}
	return nil
}

// stopProfile writes what is missing of the profile, if one was begun. It is for
// the very end, also of a program that had to be left at work: a profile without
// its end cannot be read.
func stopProfile() { pprof.StopCPUProfile() }

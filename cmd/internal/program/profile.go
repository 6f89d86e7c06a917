package program

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// startProfile starts a CPU profile of the whole process into path. A process has one profile;
// stopProfile completes it.
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

// stopProfile writes the rest of the profile, if one was started. It is called last, also when a
// program did not stop in time: a profile without its end is unreadable.
func stopProfile() { pprof.StopCPUProfile() }

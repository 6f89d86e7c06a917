package program

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// startProfile starts to write a CPU profile of the whole process to the file at path. A process can have only one
// profile. stopProfile must complete it.
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

// stopProfile writes the rest of the profile, if one was started. It is called at the end of the program, even when the
// program did not stop in time, because a profile without its end cannot be read.
func stopProfile() { pprof.StopCPUProfile() }

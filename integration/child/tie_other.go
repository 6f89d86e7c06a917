//go:build unix && !linux

package child

import "syscall"

// tie does nothing, because this system sends no signal to a child when its parent dies. So children end only when they
// are stopped.
func tie(*syscall.SysProcAttr, syscall.Signal) {}

// awaitStopped does nothing: only Linux reports when every thread has stopped.
func awaitStopped(int) {}

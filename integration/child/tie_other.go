//go:build unix && !linux

package child

import "syscall"

// tie does nothing: this system has no signal for the death of a parent, so children end only when
// they are stopped.
func tie(*syscall.SysProcAttr, syscall.Signal) {}

// awaitStopped does nothing: only Linux reports when every thread has stopped.
func awaitStopped(int) {}

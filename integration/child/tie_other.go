//go:build unix && !linux

package child

import "syscall"

// tie does nothing: this system has no signal for the death of a parent, so
// here children end only when they are told to.
func tie(*syscall.SysProcAttr, syscall.Signal) {}

// awaitStopped does nothing: only Linux says when every thread stands still.
func awaitStopped(int) {}

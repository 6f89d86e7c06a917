//go:build unix && !linux

package stack

import "syscall"

// tieToStarter does nothing: this system has no signal for the death of a
// parent, so here only Stop ends the servers.
func tieToStarter(*syscall.SysProcAttr, syscall.Signal) {}

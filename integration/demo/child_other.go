//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this system has no signal for the death of a
// parent, so here only a stop of the demo ends the child.
func dieWithParent(*syscall.SysProcAttr) {}

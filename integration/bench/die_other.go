//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this system has no signal for the death of a
// parent.
func dieWithParent(*syscall.SysProcAttr) {}

package stack

import "syscall"

// tieToStarter makes the system send sig to the child when its starter ends.
func tieToStarter(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

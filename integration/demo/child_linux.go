package main

import "syscall"

// dieWithParent makes the system kill the child when this process ends, however
// it ends. There is no time to drain then: the servers are gone as well.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

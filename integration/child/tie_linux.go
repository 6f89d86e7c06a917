package child

import "syscall"

// tie makes the system send sig to the child when its starter ends.
func tie(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

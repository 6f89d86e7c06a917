package child

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// tie makes the kernel send sig to the child when its parent ends.
func tie(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// awaitStopped returns when the child has stopped or ended. It does not consume the exit status.
func awaitStopped(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

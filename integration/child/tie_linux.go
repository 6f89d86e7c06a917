package child

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// tie makes the system send sig to the child when its starter ends.
func tie(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// awaitStopped returns when the child has stopped or ended. Who waits for its end
// still learns of it.
func awaitStopped(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

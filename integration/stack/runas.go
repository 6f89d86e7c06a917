package stack

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// runAs is the user of the PostgreSQL process. PostgreSQL refuses to run as root, or as a user
// without a name.
type runAs struct {
	credential *syscall.Credential // nil for the user of this process
	name       string
}

// unprivileged lists the users to try in place of root.
var unprivileged = [...]string{"nobody", "postgres"}

// pickUser returns the user of this process or, if that is root, an unprivileged user.
func pickUser() (runAs, error) {
	if os.Getuid() != 0 {
		return runAs{}, nil
	}
	for _, name := range unprivileged {
		if u, err := user.Lookup(name); err == nil {
			return asUser(u)
		}
	}
	return runAs{}, fmt.Errorf("root cannot run PostgreSQL and there is none of the users %v", unprivileged)
}

func asUser(u *user.User) (runAs, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return runAs{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return runAs{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return runAs{
		credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
		name:       u.Username,
	}, nil
}

// apply makes cmd run as the user.
func (r runAs) apply(cmd *exec.Cmd) {
	if r.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.credential}
	}
}

// own makes the user the owner of path.
func (r runAs) own(path string) error {
	if r.credential == nil {
		return nil
	}
	return os.Chown(path, int(r.credential.Uid), int(r.credential.Gid))
}

// reaches returns an error if the user cannot enter the folders that lead to path. For example, other users cannot
// enter root's home.
func (r runAs) reaches(path string) error {
	if r.credential == nil {
		return nil
	}
	const othersMayPass = 0o001
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.IsDir() && info.Mode()&othersMayPass == 0 {
			return fmt.Errorf("%s is closed to user %s, which runs PostgreSQL in place of root", dir, r.name)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

package stack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// classArchive is a file with the classes that a Java server loads when it starts, in the form that the JVM needs them
// in memory (a dynamic archive of application class data). With it, a broker starts with about half of the processor
// time. The JVM ignores an archive of other jars or of another JVM.
type classArchive struct {
	path string
}

// archivePatience limits the start and the stop of a server that writes an archive, and the wait for another process that
// does so.
const archivePatience = 3 * time.Minute

// classArchiveOf returns the archive for the server name, which java runs with the jars in the folder jars.
func classArchiveOf(java, jars, name string) (a classArchive, err error) {
	info, err := os.Stat(java)
	if err != nil {
		return a, err
	}
	jvm := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", java, info.Size(), info.ModTime().UnixNano()))
	return classArchive{filepath.Join(filepath.Dir(jars), fmt.Sprintf("%s-%x.jsa", name, jvm[:8]))}, nil
}

// launchServer starts a server with options of the JVM. The server creates its own folder, home.
type launchServer func(ctx context.Context, home string, options []string) (*server, error)

// options returns the JVM's options that use the archive. If the archive is missing, options launches a server that
// writes it, and stops that server. If this fails, there is no archive and no option: the server starts without it, only
// more slowly.
func (a classArchive) options(ctx context.Context, home string, launch launchServer) []string {
	if a.path == "" || !exists(a.path) && a.write(ctx, home, launch) != nil {
		return nil
	}
	return []string{"-XX:SharedArchiveFile=" + a.path, "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"}
}

// write starts a server that writes the archive at its end. If several processes call write, one of them starts the
// server and the others wait.
func (a classArchive) write(ctx context.Context, home string, launch launchServer) error {
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	lock, err := awaitLockFile(ctx, a.path+".lock")
	if err != nil {
		return err
	}
	defer lock.release()
	if exists(a.path) {
		return nil
	}
	written := filepath.Join(home, "classes.jsa")
	srv, err := launch(ctx, home, []string{"-XX:ArchiveClassesAtExit=" + written})
	if err != nil {
		return err
	}
	if err := srv.stopWithin(archivePatience, syscall.SIGTERM); err != nil {
		return err
	}
	return a.keep(written)
}

// keep copies an archive to the folder of the jars, which can be on another file system. The copy gets its name at the
// end, so an archive is always complete.
func (a classArchive) keep(written string) error {
	from, err := os.Open(written)
	if err != nil {
		return err
	}
	defer from.Close()
	building := a.path + ".building"
	to, err := os.Create(building)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	return os.Rename(building, a.path)
}

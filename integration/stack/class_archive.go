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

	"github.com/dlq-manager/dlq-manager/integration/filelock"
)

// archivePatience limits the start and the stop of a server that writes an archive, and the wait for another process that
// does so.
const archivePatience = 3 * time.Minute

// launchServer starts a server with options of the JVM. The server creates its own folder, home.
type launchServer func(ctx context.Context, home string, options []string) (*server, error)

// classArchiveOptions returns the options with which java starts the server name, with the jars in the folder jars, from
// its class archive: a file with the classes that the server loads when it starts, in the form that the JVM needs them in
// memory (a dynamic archive of application class data). With it, a broker starts with about half of the processor time.
// The JVM ignores an archive of other jars or of another JVM.
//
// If the archive is missing, classArchiveOptions launches a server that writes it, and stops that server. If this fails,
// there is no archive and no option: the server starts without it, only more slowly.
func classArchiveOptions(ctx context.Context, java, jars, name, home string, launch launchServer) []string {
	info, err := os.Stat(java)
	if err != nil {
		return nil
	}
	jvm := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", java, info.Size(), info.ModTime().UnixNano()))
	archive := filepath.Join(filepath.Dir(jars), fmt.Sprintf("%s-%x.jsa", name, jvm[:8]))
	if !exists(archive) && writeClassArchive(ctx, archive, home, launch) != nil {
		return nil
	}
	return []string{"-XX:SharedArchiveFile=" + archive, "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"}
}

// writeClassArchive starts a server that writes an archive at its end. If several processes call writeClassArchive for the
// same path, one of them starts the server and the others wait.
func writeClassArchive(ctx context.Context, path, home string, launch launchServer) error {
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	lock, err := filelock.WaitUntil(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer lock.Release()
	if exists(path) {
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
	return keepClassArchive(written, path)
}

// keepClassArchive copies an archive to the folder of the jars, which can be on another file system. The copy gets its
// name at the end, so an archive is always complete.
func keepClassArchive(written, path string) error {
	from, err := os.Open(written)
	if err != nil {
		return err
	}
	defer from.Close()
	building := path + ".building"
	to, err := os.Create(building)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	return os.Rename(building, path)
}

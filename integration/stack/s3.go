package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// s3Program is the pinned S3 server. It keeps objects as files, with versions and Object Lock.
const s3Program = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// S3 is a running S3 server with its own data folder.
type S3 struct {
	Endpoint          string // http://127.0.0.1:PORT
	Region            string
	AccessKey, Secret string

	standalone
}

// StartS3 returns a running S3 server. The first call on a machine builds the server from its source, which takes about
// a minute; there is no stand-in. On Linux, the server ends with the process that called StartS3, however the process
// ends.
func StartS3(ctx context.Context) (*S3, error) {
	s := &S3{Region: "us-east-1", AccessKey: "stack", Secret: rand.Text()}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start S3: %w", err), s.Stop())
	}
	return s, nil
}

// Objects returns the folder that has a folder for each bucket, in which each object is a file.
func (s *S3) Objects() string { return s.folder.join("objects") }

func (s *S3) start(ctx context.Context) error {
	program, err := s3Binary(ctx, readEnvironment(os.Getenv))
	if err != nil {
		return err
	}
	if s.folder, err = newDataFolder(""); err != nil {
		return err
	}
	for _, name := range []string{"objects", "versions"} {
		if err := os.Mkdir(s.folder.join(name), 0o755); err != nil {
			return err
		}
	}
	s.server, err = startOnFreePorts(ctx, 1, func(ports []int) (*server, error) {
		s.Endpoint = "http://" + address(ports[0])
		return s.build(program, address(ports[0])), nil
	})
	return err
}

func (s *S3) build(program, listen string) *server {
	return &server{
		command: func() *exec.Cmd {
			cmd := exec.Command(program, "--port", listen, "--region", s.Region, "--quiet", "--health", "/health",
				"posix", "--versioning-dir", s.folder.join("versions"), s.Objects())
			cmd.Env = []string{"PATH=/usr/bin:/bin", "ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.Secret}
			return cmd
		},
		answers: func(ctx context.Context) error { return Ping(ctx, s.Endpoint+"/health") },
		logFile: s.folder.join("s3.log"),
		halt:    syscall.SIGKILL,
	}
}

// s3Binary builds the pinned server into the cache.
func s3Binary(ctx context.Context, env environment) (string, error) {
	cache, err := cacheFolder(env)
	if err != nil {
		return "", err
	}
	built := artefact{
		name:  "s3",
		files: map[string][]byte{"program.txt": []byte(s3Program + "\n")},
		install: func(ctx context.Context, dir string) error {
			tool, err := lookPath(env.path, "go")
			if err != nil {
				return err
			}
			cmd := exec.Command(tool, "install", s3Program)
			cmd.Dir = dir // outside of this module
			cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0")
			return run(ctx, cmd, filepath.Join(dir, "install.log"))
		},
	}
	dir, err := built.ensure(ctx, cache)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", s3Program, err)
	}
	return filepath.Join(dir, "versitygw"), nil
}

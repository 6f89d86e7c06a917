package stack

import (
	"context"
	_ "embed" // for the pinned version
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

//go:embed opensearch/pom.xml
var openSearchPins []byte

//go:embed opensearch/Node.java
var openSearchNode []byte

// OpenSearch is a running node of OpenSearch with its own data folder. It has no authentication.
type OpenSearch struct {
	Address string // http://127.0.0.1:PORT

	standalone
}

// StartOpenSearch returns a running node with a heap of 512 MB. The first call on a machine downloads it; there is no
// stand-in. On Linux, the node ends with the process that called StartOpenSearch, however the process ends.
func StartOpenSearch(ctx context.Context) (*OpenSearch, error) {
	s := &OpenSearch{}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start OpenSearch: %w", err), s.Stop())
	}
	return s, nil
}

func (s *OpenSearch) start(ctx context.Context) error {
	env := readEnvironment(os.Getenv)
	java, jars, err := javaArtefacts(ctx, env, "opensearch", openSearchPins)
	if err != nil {
		return err
	}
	if s.folder, err = newDataFolder(""); err != nil {
		return err
	}
	as, err := pickUser()
	if err != nil {
		return err
	}
	data, source := s.folder.join("data"), s.folder.join("Node.java")
	if err := errors.Join(os.WriteFile(source, openSearchNode, 0o644), os.Mkdir(data, 0o755)); err != nil {
		return err
	}
	if err := errors.Join(as.own(data), as.reaches(data), as.reaches(jars)); err != nil {
		return err
	}
	s.server, err = startOnFreePorts(ctx, 2, func(ports []int) (*server, error) {
		s.Address = "http://" + address(ports[0])
		return &server{
			command: func() *exec.Cmd {
				cmd := exec.Command(java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"), source,
					filepath.Join(data, "node"), strconv.Itoa(ports[0]), strconv.Itoa(ports[1]))
				cmd.Dir = data
				as.apply(cmd)
				return cmd
			},
			answers: func(ctx context.Context) error { return Ping(ctx, s.Address+recovered) },
			logFile: s.folder.join("opensearch.log"),
			halt:    syscall.SIGKILL,
		}, nil
	})
	return err
}

// recovered is a path of OpenSearch's API. A node answers it with status 200 when it has recovered its indexes after a
// start.
const recovered = "/_cluster/health?wait_for_status=yellow&timeout=1s"

package stack

import (
	"context"
	_ "embed" // for the pinned version
	"errors"
	"fmt"
	"net/http"
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

	server *server
	folder *dataFolder
}

// StartOpenSearch returns a running node with a heap of 512 MB. The first call on a machine downloads it; there is no
// stand-in. The node ends with the process that called StartOpenSearch, however it ends.
func StartOpenSearch(ctx context.Context) (*OpenSearch, error) {
	s := &OpenSearch{}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start OpenSearch: %w", err), s.Stop())
	}
	return s, nil
}

// Stop stops the node and removes its data.
func (s *OpenSearch) Stop() error { return errors.Join(s.server.kill(), s.folder.remove()) }

// Kill ends the node's process at once and keeps its data.
func (s *OpenSearch) Kill() error { return s.server.kill() }

// Restart starts a killed node with the same address and data.
func (s *OpenSearch) Restart(ctx context.Context) error { return s.server.start(ctx) }

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
			answers: func(ctx context.Context) error { return pingOpenSearch(ctx, s.Address) },
			logFile: s.folder.join("opensearch.log"),
			halt:    syscall.SIGKILL,
		}, nil
	})
	return err
}

// pingOpenSearch returns nil when the node has recovered its indexes.
func pingOpenSearch(ctx context.Context, endpoint string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/_cluster/health?wait_for_status=yellow&timeout=1s", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s", answer.Status)
	}
	return nil
}

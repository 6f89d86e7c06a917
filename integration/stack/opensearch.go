package stack

import (
	"context"
	_ "embed" // for the pinned version
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	if err := as.reaches(jars); err != nil {
		return err
	}
	options := classArchiveOptions(ctx, java, jars, "opensearch", s.folder.join("classes"), func(ctx context.Context, home string, options []string) (*server, error) {
		srv, _, err := launchOpenSearch(ctx, home, as, options)
		return srv, err
	})
	s.server, s.Address, err = launchOpenSearch(ctx, s.folder.join("data"), as, options)
	return err
}

// launchOpenSearch returns a running node and its URL. It creates the folder home for the node's data.
func launchOpenSearch(ctx context.Context, home string, as runAs, options []string) (srv *server, url string, err error) {
	if err := os.Mkdir(home, 0o755); err != nil {
		return nil, "", err
	}
	if err := errors.Join(as.own(home), as.reaches(home)); err != nil {
		return nil, "", err
	}
	srv, err = startOnFreePorts(ctx, 2, func(ports []int) (*server, error) {
		url = "http://" + address(ports[0])
		node, err := JavaProgram(ctx, "opensearch", openSearchPins, 512, "Node", openSearchNode, "Node",
			filepath.Join(home, "node"), strconv.Itoa(ports[0]), strconv.Itoa(ports[1]))
		if err != nil {
			return nil, err
		}
		return &server{
			command: func() *exec.Cmd {
				cmd := exec.Command(node.Path, slices.Concat(options, node.Args[1:])...)
				cmd.Dir = home
				as.apply(cmd)
				return cmd
			},
			answers: func(ctx context.Context) error { return Ping(ctx, url+recovered) },
			logFile: home + ".log",
			halt:    syscall.SIGKILL,
		}, nil
	})
	return srv, url, err
}

// recovered is a path of OpenSearch's API. A node answers it with status 200 when it has recovered its indexes after a
// start.
const recovered = "/_cluster/health?wait_for_status=yellow&timeout=1s"

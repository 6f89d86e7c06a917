package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Limits that are the same for Kafka and for kfake, its stand-in.
const (
	largestBatch    = 70 << 20
	shortestSession = time.Second
)

const kfakeProgram = "github.com/dlq-manager/dlq-manager/integration/stack/cmd/kfake"

// launchKfake returns a running stand-in for Kafka. It is a separate program, so that it can be
// killed and restarted like Kafka.
func launchKfake(ctx context.Context, opts Options, env environment, folder *dataFolder) (k kafkaServers, err error) {
	home, logFile := folder.join("kfake"), folder.join("kfake.log")
	if err := os.Mkdir(home, 0o700); err != nil {
		return k, err
	}
	program := filepath.Join(home, "kfake")
	if err := buildKfake(ctx, env, program, logFile); err != nil {
		return k, fmt.Errorf("build kfake: %w", err)
	}
	srv, err := startOnFreePorts(ctx, 1, func(ports []int) (*server, error) {
		broker := address(ports[0])
		k.at = []kafkaAddresses{{broker: broker}}
		args := kfakeArgs(opts, ports[0], filepath.Join(home, "data"))
		return &server{
			command: func() *exec.Cmd { return exec.Command(program, args...) },
			answers: func(ctx context.Context) error { return pingKafka(ctx, broker) },
			logFile: logFile,
			halt:    syscall.SIGKILL,
		}, nil
	})
	k.brokers = []*server{srv}
	return k, err
}

// buildKfake compiles the stand-in for Kafka; Go's build cache makes later builds quick. The working folder of this
// process must be inside this module, as in tests.
func buildKfake(ctx context.Context, env environment, program, logFile string) error {
	compiler, err := lookPath(env.path, "go")
	if err != nil {
		return err
	}
	return run(ctx, exec.Command(compiler, "build", "-o", program, kfakeProgram), logFile)
}

func kfakeArgs(opts Options, port int, data string) []string {
	return []string{
		"-port", strconv.Itoa(port),
		"-data", data,
		"-sync=" + strconv.FormatBool(!opts.Fast),
		"-cluster-id", randomID(),
		"-largest-batch", strconv.Itoa(largestBatch),
		"-shortest-session", shortestSession.String(),
	}
}

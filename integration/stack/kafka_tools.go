package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// KafkaTool prepares one of Kafka's command line tools by the name of its class, with the heap size
// and the settings of its start scripts. Only tools that need nothing but the broker's jars work.
// It downloads the jars if they are missing; there is no stand-in.
func KafkaTool(ctx context.Context, heapMB int, class string, args ...string) (*exec.Cmd, error) {
	return javaTool(ctx, "kafka", kafkaPinsOf(readEnvironment(os.Getenv)), heapMB, class, args...)
}

// KafkaConnect prepares a standalone worker of Kafka Connect with Debezium's JDBC sink and
// PostgreSQL's driver; args are its configuration files. It downloads the jars if they are missing.
func KafkaConnect(ctx context.Context, heapMB int, args ...string) (*exec.Cmd, error) {
	return javaTool(ctx, "connect", connectPins, heapMB, "org.apache.kafka.connect.cli.ConnectStandalone", args...)
}

func javaTool(ctx context.Context, artefact string, pins []byte, heapMB int, class string, args ...string) (*exec.Cmd, error) {
	java, jars, err := javaArtefacts(ctx, readEnvironment(os.Getenv), artefact, pins)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", class, err)
	}
	options := []string{"-Xmx" + strconv.Itoa(heapMB) + "m", "-XX:+UseG1GC", "-cp", filepath.Join(jars, "*"), class}
	return exec.CommandContext(ctx, java, append(options, args...)...), nil
}

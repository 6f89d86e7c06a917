package stack

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestServerThatEndsIsExplained(t *testing.T) {
	t.Parallel()
	srv := crashing(filepath.Join(t.TempDir(), "log"), "disk full")
	err := srv.start(patient(t))
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("start = %v, want the server's last output", err)
	}
	if errors.Is(err, errPortTaken) {
		t.Errorf("start = %v, want no error about a port", err)
	}
}

func TestServerWithATakenPortSaysSo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", loopback+":0")
	check.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port

	for name, prepare := range map[string]func(*testing.T, *dataFolder, int) *server{
		"Postgres": postgresOn, "Kafka": kafkaOn,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, err := newDataFolder(openDir(t))
			check.NoError(t, err)
			srv := prepare(t, folder, port)
			srv.answers = func(context.Context) error { return errors.New("the one on the port is another") }
			if err := srv.start(patient(t)); !errors.Is(err, errPortTaken) {
				t.Errorf("start on a taken port = %v, want %v", err, errPortTaken)
			}
			if err := folder.remove(); err != nil {
				t.Error(err)
			}
		})
	}
}

func postgresOn(t *testing.T, folder *dataFolder, port int) *server {
	t.Helper()
	as, err := pickUser()
	check.NoError(t, err)
	bin, _, err := postgresBinaries(patient(t), readEnvironment(os.Getenv), as)
	check.NoError(t, err)
	c := postgresCluster{
		bin: bin, as: as, password: "x", settings: postgresDefaults,
		home: folder.join("postgres"), logFile: folder.join("log"),
	}
	check.NoError(t, c.init(patient(t)))
	return c.server(port, c.url(port))
}

func kafkaOn(t *testing.T, folder *dataFolder, port int) *server {
	t.Helper()
	java, jars, err := kafkaArtefacts(patient(t), readEnvironment(os.Getenv))
	check.NoError(t, err)
	controller, err := freePorts(1)
	check.NoError(t, err)
	n := kafkaNode{
		id: 1, java: java, jars: jars, home: folder.join("kafka"), logFile: folder.join("log"),
		opts: withDefaults(Options{Fast: true}),
	}
	at := kafkaAddresses{broker: address(port), controller: address(controller[0])}
	check.NoError(t, formatAll(patient(t), []kafkaNode{n}, []kafkaAddresses{at}))
	return n.server(address(port))
}

// crashing returns a server that prints words and exits.
func crashing(logFile, words string) *server {
	return &server{
		command: func() *exec.Cmd { return exec.Command("sh", "-c", "echo '"+words+"' >&2; exit 1") },
		answers: func(context.Context) error { return errors.New("not there") },
		logFile: logFile,
		halt:    syscall.SIGKILL,
	}
}

// Command kfake serves the Kafka protocol with franz-go's in-process broker. The stack uses it in
// place of Kafka where Java or Maven is not available.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("kfake", flag.ContinueOnError)
	port := flags.Int("port", 9092, "port on the loopback address")
	data := flags.String("data", "", "folder that keeps topics and offsets")
	sync := flags.Bool("sync", true, "write every batch through to the disk")
	cluster := flags.String("cluster-id", "kfake", "id that clients see")
	largest := flags.Int("largest-batch", 1<<20, "bytes of the largest batch")
	session := flags.Duration("shortest-session", 6*time.Second, "shortest session of a group's member")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(*port),
		kfake.ClusterID(*cluster),
		kfake.DataDir(*data),
		kfake.GroupMinSessionTimeout(*session),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": strconv.Itoa(*largest)}),
	}
	if *sync {
		opts = append(opts, kfake.SyncWrites())
	}
	broker, err := kfake.NewCluster(opts...)
	if err != nil {
		return err
	}
	defer broker.Close()
	<-ctx.Done()
	return nil
}

// Command chromium prints the path of the browser of the tests. If there is none, it installs one,
// which needs root and apt-get, or explains how to.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/dlq-manager/dlq-manager/integration/browser/chromium"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := chromium.Ensure(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// Release checks what a release is made of: the licences of everything that is
// shipped, its bill of materials, that the same sources give the same bytes, and
// what the change log says of it. It runs in the root of the repository.
//
//	go run ./integration/release licences
//	go run ./integration/release sbom VERSION FILE
//	go run ./integration/release reproducible VERSION
//	go run ./integration/release notes VERSION
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// programs are what is shipped, as folders of the repository.
var programs = []string{"./cmd/api", "./cmd/ingester", "./cmd/archiver"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("want licences, sbom VERSION FILE, reproducible VERSION or notes VERSION")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case "licences":
		return licences(ctx, out)
	case "sbom":
		if len(args) == 3 {
			return writeBill(ctx, args[1], args[2], out)
		}
	case "reproducible":
		if len(args) == 2 {
			return reproducible(ctx, args[1], out)
		}
	case "notes":
		if len(args) == 2 {
			return printNotes("CHANGELOG.md", args[1], out)
		}
	}
	return errUsage
}

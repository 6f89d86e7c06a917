// Configdoc generates docs/configuration.md: every setting with its environment variable, type, default, range and
// meaning. Types and defaults come from the configuration struct, ranges and meanings from the comments of the
// reference file. A test compares the ranges with the Validate methods.
//
//	go run ./cmd/internal/configdoc configs/config.yaml docs/configuration.md
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "configdoc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("got %d arguments, want the reference file and the page to write", len(args))
	}
	text, err := page(args[0])
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], []byte(text), 0o644) //nolint:gosec // a page that everybody may read
}

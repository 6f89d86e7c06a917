package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// printNotes prints what the change log says of a version. A version that it does
// not know is one that is not released yet.
func printNotes(path, version string, out io.Writer) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	notes := section(string(raw), strings.TrimPrefix(version, "v"))
	if notes == "" {
		notes = section(string(raw), "Unreleased")
	}
	if notes == "" {
		return fmt.Errorf("%s has nothing about %s, nor about what is unreleased", path, version)
	}
	_, err = fmt.Fprintln(out, notes)
	return err
}

// section is the text below a heading such as "## [1.2.0] - 2026-11-21"; "" when
// there is none or it is empty.
func section(text, version string) string {
	var found []string
	inside := false
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "## ["+version+"]"):
			inside = true
		case strings.HasPrefix(line, "## "):
			inside = false
		case inside:
			found = append(found, line)
		}
	}
	return strings.TrimSpace(strings.Join(found, "\n"))
}

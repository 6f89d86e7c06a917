// Package chromium finds the browser for tests of pages, and installs one where that is allowed.
package chromium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// debianPackage is Chromium without a window, a quarter of the size of the full package.
const debianPackage = "chromium-headless-shell"

// installPatience limits each of the two calls of apt-get.
const installPatience = 10 * time.Minute

// names lists the names that distributions and vendors use, the smallest browser first.
var names = []string{
	"chromium-headless-shell", "headless_shell", "chrome-headless-shell",
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
}

// Find returns the program in the variable CHROMIUM, else the first known one on PATH. If no program is known, the
// error says how to install one.
func Find() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("CHROMIUM names no program: %w", err)
		}
		return found, nil
	}
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", errors.New("no Chromium is on PATH, but the tests of the console need one: install Debian's " + debianPackage +
		" or any Chromium or Chrome, or say where one is with CHROMIUM=PATH")
}

// Ensure is Find, but first installs a missing browser, unless CHROMIUM is set. That needs root and apt-get, whose
// output goes to log. If that is impossible, the error says how to install one.
func Ensure(ctx context.Context, log io.Writer) (string, error) {
	path, missing := Find()
	if missing == nil || os.Getenv("CHROMIUM") != "" {
		return path, missing
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Getuid() != 0 {
		return "", missing
	}
	for _, args := range [][]string{
		{"update", "-q"},
		{"install", "-q", "-y", "--no-install-recommends", debianPackage},
	} {
		if err := run(ctx, log, apt, args...); err != nil {
			return "", fmt.Errorf("%w; apt-get could not: %w", missing, err)
		}
	}
	return Find()
}

func run(ctx context.Context, log io.Writer, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, installPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w", program, args, err)
	}
	return nil
}

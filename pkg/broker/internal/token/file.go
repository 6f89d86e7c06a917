package token

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

// File reads a token from a file each time it is used. While the file is missing or incomplete, it returns the last
// token. It is safe for concurrent use.
type File struct {
	path string

	mu   sync.Mutex
	last secret.Text
}

// FromFile returns a File for the token file of the settings.
func FromFile(cfg Config) *File { return &File{path: cfg.TokenFile} }

// Token returns the token of the file.
func (f *File) Token(context.Context) (secret.Text, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	value, err := readText(f.path)
	if err == nil {
		err = checkForm(value)
	}
	if err == nil {
		f.last = value
	}
	if f.last == "" {
		return "", fmt.Errorf("read kafka token: %w", err)
	}
	return f.last, nil
}

// Refused does nothing, because each sign-in reads the file.
func (f *File) Refused(secret.Text) {}

// Close does nothing.
func (f *File) Close() {}

// readText reads a file whose content is a secret; white space around it is not part of the secret.
func readText(path string) (secret.Text, error) {
	content, err := secret.FromFile(path)
	return secret.Text(strings.TrimSpace(content.Reveal())), err
}

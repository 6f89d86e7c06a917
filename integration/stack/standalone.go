package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// standalone is a server that is started for itself, not as a part of a Stack, and has its own data folder.
type standalone struct {
	server *server
	folder *dataFolder
}

// Stop stops the server and removes its data.
func (s *standalone) Stop() error { return errors.Join(s.server.kill(), s.folder.remove()) }

// Kill ends the server process at once and keeps its data.
func (s *standalone) Kill() error { return s.server.kill() }

// Restart starts a killed server with the same address and data.
func (s *standalone) Restart(ctx context.Context) error { return s.server.startAgain(ctx) }

// Ping returns nil when a URL answers with status 200. ctx limits the wait.
func Ping(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	return nil
}

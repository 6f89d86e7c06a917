package main

import (
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/console"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// mountConsole adds the console's pages to the server of the API, if the console is enabled.
func (p *parts) mountConsole() error {
	cfg := p.base.Config
	settings := cfg.Console
	if !settings.Enabled {
		return nil
	}
	settings.Name, settings.Environment = cfg.App.Name, cfg.App.Environment
	settings.ApplicationFrames = cfg.Groups.Frames
	var options []console.Option
	if p.db != nil {
		options = append(options, console.WithDrafts(postgres.NewDrafts(p.db, console.DraftLife)))
	}
	if cfg.Auth.Mode != auth.ModeNone {
		options = append(options, console.WithAuthentication(), console.WithSessions(p.sessions), console.WithSignIns(p.server.SignIns()))
	}
	if cfg.Auth.SignsIn() {
		issuer, err := auth.NewSignIn(cfg.Auth, p.base.Log)
		if err != nil {
			return err
		}
		options = append(options, console.WithSignIn(issuer))
	}
	pages, err := console.New(settings, p.server.Handler(), p.base.Log, options...)
	if err != nil {
		return err
	}
	for _, route := range pages.Routes() {
		p.server.Mount(route.Method, route.Path, route.Handler)
	}
	p.server.MountMissing(pages.Missing(http.StatusNotFound), pages.Missing(http.StatusMethodNotAllowed))
	return nil
}

package main

import (
	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/console"
)

// mountConsole adds the console's pages to the server of the API.
func (p *parts) mountConsole() error {
	cfg := p.base.Config
	settings := cfg.Console
	if !settings.Enabled {
		return nil
	}
	settings.Name, settings.Environment = cfg.App.Name, cfg.App.Environment
	settings.ApplicationFrames = cfg.Groups.Frames
	var options []console.Option
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
	return nil
}

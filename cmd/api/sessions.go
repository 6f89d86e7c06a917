package main

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// buildAuth creates authentication, sessions and the signer. With a database, the replicas share the revoked sessions.
func (p *parts) buildAuth() error {
	cfg, log := p.base.Config.Auth, p.base.Log
	var store auth.EndedStore // the store of ended sessions; nil when revocations stay in this process
	if p.db != nil {
		store = postgres.NewSessions(p.db)
	}
	revoked, err := auth.NewRevocations(cfg, store, log)
	if err != nil {
		return err
	}
	if p.authenticator, err = auth.New(cfg, log, auth.WithRevocations(revoked)); err != nil {
		return err
	}
	p.sessions = auth.NewSessions(p.authenticator, revoked)
	p.signer, err = auth.NewSigner(cfg, log)
	return err
}

// shareSigningKeys loads the signing keys from the database, unless a file provides them. With shared keys, every
// replica accepts what any replica has signed, such as the cursors of lists, also after a restart. While the database
// is unavailable, shareSigningKeys tries again until ctx ends; it returns any other error at once.
func (p *parts) shareSigningKeys(ctx context.Context) error {
	if p.signer.HasFile() {
		return nil
	}
	sessions, said := postgres.NewSessions(p.db), false
	for {
		keys, err := sessions.SigningKeys(ctx, auth.NewKey())
		if err == nil {
			p.signer.Use(keys)
			return nil
		}
		if !errors.Is(err, entity.ErrUnavailable) {
			return err
		}
		if !said {
			p.base.Log.Warn("waiting for the signing keys", zap.Error(err))
			said = true
		}
		if !wait.Sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

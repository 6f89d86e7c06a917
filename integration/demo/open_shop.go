package main

import (
	"context"
	"io"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// openShop is a shop and what is needed to close it.
type openShop struct {
	*shop.Shop
	ctx    context.Context
	cancel context.CancelFunc
	opened bool
	done   chan error // has one error, nil too, when the shop has closed
}

// prepareShop returns a shop that is not open yet, with its topics.
func prepareShop(ctx context.Context, cfg shop.Config, log io.Writer) (*openShop, error) {
	s, err := shop.New(cfg, log)
	if err != nil {
		return nil, err
	}
	if err := s.CreateTopics(ctx); err != nil {
		return nil, err
	}
	// The shop closes when told to, not when the demo is: it goes first, but only
	// the demo knows when.
	open := &openShop{Shop: s, done: make(chan error, 1)}
	open.ctx, open.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return open, nil
}

func (s *openShop) open() {
	s.opened = true
	go func() {
		s.done <- s.Run(s.ctx)
		close(s.done)
	}()
}

// close returns when the shop is closed. A nil shop never was open.
func (s *openShop) close() error {
	if s == nil {
		return nil
	}
	s.cancel()
	if !s.opened {
		return nil
	}
	return <-s.done
}

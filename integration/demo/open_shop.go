package main

import (
	"context"
	"io"

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

// openShop is a shop, with what the demo needs to open and close it.
type openShop struct {
	*shop.Shop
	ctx    context.Context
	cancel context.CancelFunc
	opened bool
	done   chan error // receives nil or the shop's error when the shop has closed
}

// prepareShop creates the shop's topics, and returns the shop without opening it.
func prepareShop(ctx context.Context, cfg shop.Config, log io.Writer) (*openShop, error) {
	s, err := shop.New(cfg, log)
	if err != nil {
		return nil, err
	}
	if err := s.CreateTopics(ctx); err != nil {
		return nil, err
	}
	// The context of the shop does not end with ctx, because the shop must close before the other parts of the demo:
	// demo.stop ends it.
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

// close returns when the shop is closed. It accepts a nil shop.
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

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/registry"
	"github.com/dlq-manager/dlq-manager/integration/shop"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

const (
	sitePatience = 2 * time.Minute
	shopBurst    = 60
)

// sites counts the sites of this process, so that each of them gets unique names.
var sites atomic.Int64

// Site is an installation with its own database and topics: the API with the console, an ingester,
// and a shop whose consumers have dead-lettered some records for several everyday reasons.
type Site struct {
	// URL is the base URL of the API and the console, without a slash at the end.
	URL string

	// Prefix is the prefix of the shop's topics and consumer groups, whose names without it are constants such as
	// shop.OrdersDeadLetters.
	Prefix string

	// Shop is the running shop. After a call of Shop.Recover, the shop accepts a republished record if its failure had
	// a temporary cause. In all other cases, a republished record returns as a new dead letter with the same history.
	Shop *shop.Shop

	t        testing.TB
	programs string // folder of the programs
	folder   string // for configuration and logs
	config   string
	database string // URL
	registry string // URL of the schema registry; empty: none
}

// NewSite starts a site and waits until searches find every dead letter of the shop's opening.
// environ is added to the environment of the API. The site ends with the test.
func NewSite(t testing.TB, environ ...string) *Site {
	t.Helper()
	return openSite(t, "", environ...)
}

// NewSiteWithSchemas starts a site as NewSite does, with a schema registry. The shop of this site also has shipments
// in Avro and invoices in Protobuf.
func NewSiteWithSchemas(t testing.TB) *Site {
	t.Helper()
	schemas := httptest.NewServer(registry.New(registry.Options{}))
	t.Cleanup(schemas.Close)
	return openSite(t, schemas.URL)
}

func openSite(t testing.TB, schemas string, environ ...string) *Site {
	t.Helper()
	s := &Site{
		t: t, folder: t.TempDir(), programs: built(t), registry: schemas,
		Prefix: fmt.Sprintf("browser%d-%d-", os.Getpid(), sites.Add(1)),
	}
	s.writeConfig(postgrestest.URL(t))
	s.prepareShop()
	s.URL = s.start("api", environ...).URL
	s.start("ingester")
	s.openShop()
	return s
}

func (s *Site) writeConfig(database string) {
	s.t.Helper()
	s.database = database
	s.config = filepath.Join(s.folder, "config.yaml")
	cfg := programs.Config{
		Database: database, Broker: stacktest.Kafka(s.t)[0], Group: s.Prefix + "ingester", Pattern: s.Prefix + "*.dlq.v1",
		More: fmt.Sprintf("redrive: {outcome_interval: 1s, consumer_groups: [{topic: %q, group: %q}]}\n",
			s.Prefix+"payments.*", s.Prefix+shop.PaymentsGroup),
	}
	if s.registry != "" {
		cfg.More += fmt.Sprintf("schemas: {registries: [{name: shop, url: %q}]}\n", s.registry)
	}
	if err := cfg.Write(s.config); err != nil {
		s.t.Fatal(err)
	}
}

// For returns the same site for a subtest: a method that fails then ends the subtest.
func (s *Site) For(t testing.TB) *Site {
	inner := *s
	inner.t = t
	return &inner
}

// Another starts one more API on the same database and Kafka, with other settings, and returns its URL. The API
// ends with the test.
func (s *Site) Another(environ ...string) (address string) {
	s.t.Helper()
	return s.start("api", environ...).URL
}

// NewEmptySite starts an API without any messages.
func NewEmptySite(t testing.TB, environ ...string) *Site {
	t.Helper()
	s := &Site{
		t: t, folder: t.TempDir(), programs: built(t),
		Prefix: fmt.Sprintf("browser%d-%d-", os.Getpid(), sites.Add(1)),
	}
	s.writeConfig(postgrestest.URL(t))
	s.URL = s.start("api", environ...).URL
	return s
}

// prepareShop creates the shop's topics before the ingester starts, so that the ingester finds them at once.
func (s *Site) prepareShop() {
	s.t.Helper()
	cfg := shop.DefaultConfig()
	cfg.Brokers, cfg.Prefix, cfg.Burst, cfg.Registry = stacktest.Kafka(s.t), s.Prefix, shopBurst, s.registry
	// These times are longer than any test: causes of failures end only when the test ends them, and after the opening
	// the shop produces no records.
	cfg.Outage, cfg.CatalogueLag, cfg.Interval = time.Hour, time.Hour, time.Hour
	var err error
	if s.Shop, err = shop.New(cfg, io.Discard); err == nil {
		err = s.Shop.CreateTopics(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *Site) start(name string, environ ...string) *programs.Process {
	s.t.Helper()
	p, err := programs.Start(programs.Program{
		Path: filepath.Join(s.programs, name), Config: s.config, Env: environ, Dir: s.folder,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", name, programs.Tail(p.Log))
		}
	})
	ctx, cancel := context.WithTimeout(s.t.Context(), sitePatience)
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *Site) openShop() {
	s.t.Helper()
	want := 0
	for _, n := range s.Shop.BurstFailures() {
		want += n
	}
	ctx, closeShop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	closed := make(chan error, 1)
	go func() { closed <- s.Shop.Run(ctx) }()
	s.t.Cleanup(func() {
		closeShop()
		if err := <-closed; err != nil {
			s.t.Errorf("the shop: %v", err)
		}
	})
	s.await(fmt.Sprintf("%d dead letters can be searched for", want), func() bool {
		var found struct {
			Messages []struct {
				GroupID string `json:"group_id"`
			} `json:"messages"`
		}
		if s.Call(http.MethodGet, "/api/v1/messages?limit=200", nil, &found) != http.StatusOK || len(found.Messages) < want {
			return false
		}
		for _, m := range found.Messages {
			if m.GroupID == "" {
				return false
			}
		}
		return true
	})
}

// await repeats ok until it is true.
func (s *Site) await(what string, ok func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), sitePatience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			s.t.Fatalf("after %s still not true: %s", sitePatience, what)
		case <-ticker.C:
		}
	}
}

// Call sends a request to the API. It sends body as JSON, unless body is nil, and decodes a successful answer in JSON
// into out, unless out is nil. It returns the status, 0 without an answer.
func (s *Site) Call(method, path string, body, out any) (status int) {
	s.t.Helper()
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			s.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, &sent)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if out != nil && res.StatusCode < 300 && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			s.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return res.StatusCode
}

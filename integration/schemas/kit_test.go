package schemas_test

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

	"github.com/jmoiron/sqlx"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/integration/registry"
	"github.com/dlq-manager/dlq-manager/integration/registry/official"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi/openapitest"
)

// sites counts the sites of this process, so that each of them gets unique names.
var sites atomic.Int64

// site is one installation: a schema registry, a database, topics with their own prefix, and the programs that use
// them.
type site struct {
	t           *testing.T
	prefix      string // prefix of the names of topics, and the name of the ingester's consumer group
	registry    *registry.Registry
	registryURL string
	database    *sqlx.DB
	brokers     []string
	kafka       *kgo.Client
	config      string
	api         string // URL of the api program; "" before start("api")
	token       string // token for requests to the api; "" for none
}

// newSite returns a site whose programs are not started yet. Its configuration contains the given registries, and after
// them the registry named main for all other topics. The parameter more contains further sections of the configuration.
// Both parameters are YAML.
func newSite(t *testing.T, more string, registries ...string) *site {
	t.Helper()
	s := &site{
		t: t, prefix: fmt.Sprintf("schemas%d-%d", os.Getpid(), sites.Add(1)),
		registry: registry.New(registry.Options{}), brokers: stacktest.Kafka(t),
		config: filepath.Join(t.TempDir(), "config.yaml"),
	}
	server := httptest.NewServer(s.registry)
	t.Cleanup(server.Close)
	s.registryURL = server.URL
	registries = append(registries, fmt.Sprintf("{name: main, url: %q}", s.registryURL))
	database := postgrestest.URL(t)
	s.database = check.Must(sqlx.Connect("postgres", database))(t)
	t.Cleanup(func() { _ = s.database.Close() })
	s.kafka = check.Must(kgo.NewClient(kgo.SeedBrokers(s.brokers...)))(t)
	t.Cleanup(s.kafka.Close)
	check.NoError(t, programs.Config{
		Database: database, Broker: s.brokers[0], Group: s.prefix, Pattern: s.prefix + "-*.dlq.v1",
		More: fmt.Sprintf("schemas: {registries: [%s]}\n", strings.Join(registries, ", ")) + more,
	}.Write(s.config))
	return s
}

// topic creates a topic with one partition and the site's prefix. The names of dead-letter topics end with .dlq.v1.
func (s *site) topic(name string) string {
	s.t.Helper()
	stacktest.CreateTopic(s.t, s.prefix+"-"+name, 1)
	return s.prefix + "-" + name
}

// start runs a program until it is ready. The program is killed when the test ends, and its log is shown after a
// failure.
func (s *site) start(name string) *programs.Process {
	s.t.Helper()
	p := check.Must(programs.Start(programs.Program{
		Path: filepath.Join(binaries, name), Config: s.config, Dir: filepath.Dir(s.config),
	}))(s.t)
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", name, programs.Tail(p.Log))
		}
	})
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	check.NoError(s.t, p.Ready(ctx))
	if name == "api" {
		s.api = p.URL
	}
	return p
}

// produce writes records.
func (s *site) produce(records ...*kgo.Record) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	check.NoError(s.t, s.kafka.ProduceSync(ctx, records...).FirstErr())
}

// consume waits, for at most a minute, until a topic has n records, and returns the first n of them.
func (s *site) consume(topic string, n int) []*kgo.Record {
	s.t.Helper()
	client := check.Must(kgo.NewClient(
		kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	))(s.t)
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		check.NoError(s.t, fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records[:n]
}

// call sends a request to the api and decodes its answer, which must have status want, into out. The request and the
// answer must fit the OpenAPI document. body and out are values of JSON; nil for none.
func (s *site) call(method, path string, body any, want int, out any) {
	s.t.Helper()
	var text []byte
	if body != nil {
		text = check.Must(json.Marshal(body))(s.t)
	}
	req := check.Must(http.NewRequestWithContext(s.t.Context(), method, s.api+path, bytes.NewReader(text)))(s.t)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := http.DefaultClient.Do(req)
	check.NoError(s.t, err)
	defer res.Body.Close()
	answer := check.Must(io.ReadAll(res.Body))(s.t)
	check.NoError(s.t, openapitest.Check(openapitest.Exchange{
		Method: method, Path: path, Header: req.Header, Body: text,
		Status: res.StatusCode, AnswerHeader: res.Header, Answer: answer,
	}))
	check.Require(s.t, res.StatusCode == want, "%s %s = %d %s, want %d", method, path, res.StatusCode, answer, want)
	if out != nil {
		check.NoError(s.t, json.Unmarshal(answer, out))
	}
}

// register adds a schema to a subject, with references whose subjects have one version, and returns its id.
func (s *site) register(subject, format, schema string, references []official.Reference) (id int) {
	s.t.Helper()
	uses := []map[string]any{}
	for _, r := range references {
		uses = append(uses, map[string]any{"name": r.Name, "subject": r.Subject, "version": 1})
	}
	body := map[string]any{"schema": schema, "schemaType": strings.ToUpper(format), "references": uses}
	text := check.Must(json.Marshal(body))(s.t)
	url := s.registryURL + "/subjects/" + subject + "/versions"
	req := check.Must(http.NewRequestWithContext(s.t.Context(), http.MethodPost, url, bytes.NewReader(text)))(s.t)
	res, err := http.DefaultClient.Do(req)
	check.NoError(s.t, err)
	defer res.Body.Close()
	check.Require(s.t, res.StatusCode == http.StatusOK, "register %s: status %d", subject, res.StatusCode)
	var answer struct{ ID int }
	check.NoError(s.t, json.NewDecoder(res.Body).Decode(&answer))
	return answer.ID
}

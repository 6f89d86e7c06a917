package stack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestStart(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	s := start(t, Options{
		Postgres: true, Kafka: true, Dir: dir,
		PostgresSettings: map[string]string{"application_name": "it's ours"},
	})
	t.Run("PostgresIsThePinnedVersion", func(t *testing.T) {
		got := scalar(t, openDatabase(t, s.DatabaseURL()), "select version()")
		if !strings.HasPrefix(got, "PostgreSQL 17.") {
			t.Errorf("select version() = %q, want PostgreSQL 17", got)
		}
	})
	t.Run("PostgresTakesGivenSettings", func(t *testing.T) {
		got := scalar(t, openDatabase(t, s.DatabaseURL()), "show application_name")
		check.True(t, got == "it's ours", "show application_name = %q, want %q", got, "it's ours")
	})
	t.Run("PostgresWantsThePassword", func(t *testing.T) {
		without, err := url.Parse(s.DatabaseURL())
		check.NoError(t, err)
		without.User = url.UserPassword("postgres", "wrong")
		if err := pingPostgres(patient(t), without.String()); err == nil {
			t.Error("connected with a wrong password, want an error")
		}
	})
	t.Run("KafkaCarriesTenMegabytes", func(t *testing.T) {
		createTopic(t, s.Brokers()[0], "large")
		want := bytes.Repeat([]byte("0123456789"), 1<<20)
		produce(t, s.Brokers()[0], "large", want)
		if got := consume(t, s.Brokers()[0], "large"); !bytes.Equal(got, want) {
			t.Errorf("consumed %d bytes, want the %d produced", len(got), len(want))
		}
	})
	t.Run("KafkaIsNotOlderThanFour", func(t *testing.T) {
		answer, err := newClient(t, s.Brokers()[0]).ApiVersions(patient(t), &kafka.ApiVersionsRequest{})
		check.NoError(t, err)
		// This proves that the broker is Kafka 4: earlier versions still accept the oldest versions of Fetch.
		const fetch = 1
		i := slices.IndexFunc(answer.ApiKeys, func(k kafka.ApiVersionsResponseApiKey) bool { return k.ApiKey == fetch })
		if i < 0 || answer.ApiKeys[i].MinVersion < 4 {
			t.Errorf("ApiVersions: %+v, want Fetch from version 4 on", answer.ApiKeys)
		}
	})
	t.Run("KafkaHasTheSelectedVersion", func(t *testing.T) {
		version := cmp.Or(s.env.kafkaVersion, "4.4.0")
		minor := version[:strings.LastIndex(version, ".")]
		log, err := os.ReadFile(s.folder.join("kafka.log"))
		check.NoError(t, err)
		if !strings.Contains(string(log), " metadata.version "+minor+"-") {
			t.Errorf("the storage is not formatted by Kafka %s:\n%s", version, log)
		}
	})
	t.Run("KafkaMakesNoTopicByAccident", func(t *testing.T) {
		w := &kafka.Writer{
			Addr: kafka.TCP(s.Brokers()...), Topic: "typo", AllowAutoTopicCreation: true,
			MaxAttempts: 1, BatchSize: 1, Transport: newClient(t, s.Brokers()[0]).Transport,
		}
		defer w.Close()
		if err := w.WriteMessages(patient(t), kafka.Message{Value: []byte("x")}); err == nil {
			t.Error("WriteMessages to a topic that is not there = nil, want an error")
		}
		meta, err := newClient(t, s.Brokers()[0]).Metadata(patient(t), &kafka.MetadataRequest{})
		check.NoError(t, err)
		if slices.ContainsFunc(meta.Topics, func(topic kafka.Topic) bool { return topic.Name == "typo" }) {
			t.Error("the topic was made by writing to it")
		}
	})
	t.Run("NothingIsReplaced", func(t *testing.T) {
		if notes := s.Notes(); len(notes) != 0 {
			t.Errorf("Notes() = %q, want none", notes)
		}
	})
	t.Run("StopEndsServersAndRemovesData", func(t *testing.T) {
		for range 2 {
			if err := s.Stop(); err != nil {
				t.Fatalf("Stop: %v", err)
			}
		}
		if listens(s.Brokers()[0]) || listens(hostOf(t, s.DatabaseURL())) {
			t.Error("a server listens after Stop, want none")
		}
		if left := runFolders(t, dir); len(left) != 0 {
			t.Errorf("data folders after Stop: %q, want none", left)
		}
	})
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	t.Run("LeavesNothingAndShowsWhy", func(t *testing.T) {
		t.Parallel()
		dir := openDir(t)
		_, err := Start(patient(t), Options{
			Postgres: true, Own: true, Dir: dir,
			PostgresSettings: map[string]string{"no_such_setting": "on"},
		})
		if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
			t.Errorf("Start with a bad setting: %v, want the server's own message", err)
		}
		if left := runFolders(t, dir); len(left) != 0 {
			t.Errorf("data folders after a failed start: %q, want none", left)
		}
	})
	t.Run("WhenItsContextEnds", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := Start(ctx, Options{Postgres: true, Own: true, Dir: openDir(t)})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Start with a cancelled context: %v, want %v", err, context.Canceled)
		}
	})
	t.Run("WhereItsUserCannotEnter", func(t *testing.T) {
		t.Parallel()
		if os.Getuid() != 0 {
			return // PostgreSQL runs as another user only if this process runs as root
		}
		dir := openDir(t)
		check.NoError(t, os.Chmod(dir, 0o700))
		_, err := Start(patient(t), Options{Postgres: true, Own: true, Dir: dir})
		if err == nil || !strings.Contains(err.Error(), dir+" is closed to user") {
			t.Errorf("Start in a closed folder: %v, want one that names the folder", err)
		}
	})
}

func TestKafkaThatIsMissingInTheSelectedVersionIsNotReplaced(t *testing.T) {
	t.Parallel()
	_, err := Start(patient(t), Options{Kafka: true, Own: true, Getenv: variables(map[string]string{
		ForceFallbackVariable: "1", CIVariable: "", KafkaVersionVariable: "4.1.2",
	})})
	if err == nil || !strings.Contains(err.Error(), "4.1.2 is not available") {
		t.Errorf("Start without Kafka 4.1.2 = %v, want an error that names the version", err)
	}
}

func TestExistingServers(t *testing.T) {
	t.Parallel()
	env := variables(map[string]string{
		DatabaseURLVariable: "postgres://there/db",
		BrokersVariable:     "one:9092, two:9092",
	})
	s, err := Start(patient(t), Options{Postgres: true, Kafka: true, Getenv: env})
	check.NoError(t, err)
	if got, want := s.DatabaseURL(), "postgres://there/db"; got != want {
		t.Errorf("DatabaseURL() = %q, want %q", got, want)
	}
	if got, want := s.Brokers(), []string{"one:9092", "two:9092"}; !slices.Equal(got, want) {
		t.Errorf("Brokers() = %q, want %q", got, want)
	}
	want := []string{DatabaseURLVariable + "=postgres://there/db", BrokersVariable + "=one:9092,two:9092"}
	if got := s.Environ(); !slices.Equal(got, want) {
		t.Errorf("Environ() = %q, want %q", got, want)
	}
	if err := s.KillPostgres(); !errors.Is(err, ErrNotOurs) {
		t.Errorf("KillPostgres() = %v, want %v", err, ErrNotOurs)
	}
	if err := s.StopKafka(); !errors.Is(err, ErrNotOurs) {
		t.Errorf("StopKafka() = %v, want %v", err, ErrNotOurs)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("Stop() = %v, want nil", err)
	}
}

func hostOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	check.NoError(t, err)
	return u.Host
}

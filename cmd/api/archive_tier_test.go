package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// knownStats is a fake store that returns its own value as the statistics of the archive's objects.
type knownStats repository.ObjectStats

func (s knownStats) ObjectStats(context.Context) (repository.ObjectStats, error) {
	return repository.ObjectStats(s), nil
}

func TestObjectsCollector(t *testing.T) {
	t.Parallel()
	collect := func(s knownStats, want string) {
		t.Helper()
		check.NoError(t, testutil.CollectAndCompare(newObjectsCollector(s, zap.NewNop()), strings.NewReader(want),
			"dlq_archive_object_messages", "dlq_archive_undeleted_since_timestamp_seconds"))
	}
	const messages = `
# HELP dlq_archive_object_messages Archived messages in the object store.
# TYPE dlq_archive_object_messages gauge
dlq_archive_object_messages 7
`
	collect(knownStats{Messages: 7}, messages)
	collect(knownStats{Messages: 7, WaitingSince: time.Unix(1_000_000_000, 0)}, messages+`
# HELP dlq_archive_undeleted_since_timestamp_seconds Since when bytes of restored, erased or purged messages wait to be deleted from the object store, in Unix seconds; absent when none wait. Bytes that an object lock retains do not count.
# TYPE dlq_archive_undeleted_since_timestamp_seconds gauge
dlq_archive_undeleted_since_timestamp_seconds 1e+09
`)
}

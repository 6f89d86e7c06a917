// Package repositorytest is the storage contract as tests: what a store must do
// to be a repository.Repository (Run) or a repository.Core (RunCore). Every store runs
// the same suite; a bug found in one of them becomes a test here, so that all of them
// must pass it.
package repositorytest

import (
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Fixture is one empty store, and the ways into it that the contract leaves out.
type Fixture struct {
	Repository repository.Repository

	// Insert puts a message in exactly as it is: state, times, claim, source. The
	// numbers in its source come from OpenTopics. A message without a source is a
	// row put in by SQL, its value being the payload's text.
	Insert func(t *testing.T, m entity.Message)

	// Archive moves a message to the archive as it is, whatever its state and age.
	Archive func(t *testing.T, id uuid.UUID)

	// UpdatedAtIsTheServers says that the store cannot set UpdatedAt from the
	// injected clock once a message exists. Then it is only checked to move
	// forward.
	UpdatedAtIsTheServers bool

	core bool // the store keeps repository.Core only
}

// Run proves the contract. It calls open once for each promise, from parallel
// tests, for an empty store that runs on clock; open cleans up by t.
func Run(t *testing.T, open func(t *testing.T, clock *Clock) Fixture) {
	t.Helper()
	for _, theme := range themes() {
		t.Run(theme.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range theme.promises {
				p.run(t, open)
			}
		})
	}
}

// theme is what the contract says of one thing.
type theme struct {
	name     string
	promises []promise
}

func themes() []theme {
	return []theme{
		{"List", listPromises()},
		{"Get", getPromises()},
		{"Bytes", bytesPromises()},
		{"Load", loadPromises()},
		{"Counts", countsPromises()},
		{"Claim", claimPromises()},
		{"Finish", finishPromises()},
		{"Rescue", rescuePromises()},
		{"Expired", expiredPromises()},
		{"History", historyPromises()},
		{"Edits", editsPromises()},
		{"Topics", topicsPromises()},
		{"Ingest", ingestPromises()},
		{"Lineage", lineagePromises()},
		{"Returns", returnsPromises()},
		{"Delete", deletePromises()},
		{"Requeue", requeuePromises()},
		{"GiveUp", giveUpPromises()},
		{"Change", changePromises()},
		{"Map", mapPromises()},
		{"Again", againPromises()},
		{"Audit", auditPromises()},
		{"Operations", operationsPromises()},
		{"Record", recordPromises()},
		{"Mapping", mappingPromises()},
		{"Keys", keysPromises()},
		{"Due", duePromises()},
		{"Outcomes", outcomePromises()},
		{"Redrives", redrivesPromises()},
		{"RedriveSelection", redriveSelectionPromises()},
		{"Groups", groupsPromises()},
		{"TopicSummaries", topicSummariesPromises()},
		{"Search", searchPromises()},
		{"Count", matchingPromises()},
		{"Export", exportPromises()},
		{"ArchiveReading", archivedPromises()},
		{"Catalogue", cataloguePromises()},
		{"Activity", activityPromises()},
		{"Events", eventsPromises()},
		{"Notices", noticesPromises()},
		{"ArchiveRuns", archiveRunsPromises()},
		{"RecentGroups", recentGroupsPromises()},
		{"RedriveBatches", redriveBatchesPromises()},
		{"RetryAll", retryAllPromises()},
		{"Concurrency", concurrencyPromises()},
		{"Context", contextPromises()},
	}
}

// promise is one sentence of the contract and how it is checked.
type promise struct {
	name  string
	check func(h *harness)
}

func (p promise) run(t *testing.T, open func(t *testing.T, clock *Clock) Fixture) {
	t.Helper()
	t.Run(p.name, func(t *testing.T) {
		t.Parallel()
		clock := NewClock()
		p.check(&harness{T: t, Fixture: open(t, clock), clock: clock, refs: map[string]repository.TopicRef{}})
	})
}

// Package repositorytest tests the storage contract: what a repository.Repository (Run) or a repository.Core (RunCore)
// must do. The same suite tests all stores. A bug that is found in one store becomes a test here, so that no store can
// have it.
package repositorytest

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Fixture is an empty store, with functions that tests need and the storage contract does not contain.
type Fixture struct {
	Repository repository.Repository

	// Insert stores a message exactly as given, with its state, times, claim and source. The topic id and the
	// incarnation in the message's source are ids that OpenTopics returned. A message without a source is stored like
	// one that an SQL statement of a user inserts: its value becomes the column payload.
	Insert func(t *testing.T, m entity.Message)

	// Archive moves a message of any status and age to the archive, without changing it.
	Archive func(t *testing.T, id uuid.UUID)

	// UpdatedAtIsTheServers is set when the store cannot set UpdatedAt from the injected clock once a message exists.
	// The tests then check only that UpdatedAt increases.
	UpdatedAtIsTheServers bool

	core bool // whether the tested store implements only repository.Core, and no features
}

// Run tests the contract. For each promise it calls the function open from a parallel test; open must return an empty
// store that uses clock, and register the store's clean-up with t.
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

// RunSearch tests those promises of the contract that concern the search index, for a store whose search index is in a
// search engine outside of it.
func RunSearch(t *testing.T, open func(t *testing.T, clock *Clock) Fixture) {
	t.Helper()
	concerned := []string{"Search", "Count", "Export", "ArchiveReading", "SearchIndex", "RedriveSelection", "Activity"}
	for _, theme := range themes() {
		if !slices.Contains(concerned, theme.name) {
			continue
		}
		t.Run(theme.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range theme.promises {
				p.run(t, open)
			}
		})
	}
}

// theme is a group of promises of the storage contract on one subject, such as the search index.
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
		{"Repeats", repeatsPromises()},
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
		{"Views", viewsPromises()},
		{"Redirects", redirectsPromises()},
		{"Keys", keysPromises()},
		{"Due", duePromises()},
		{"Outcomes", outcomePromises()},
		{"AutoSends", autoPromises()},
		{"Redrives", redrivesPromises()},
		{"RedriveSelection", redriveSelectionPromises()},
		{"Groups", groupsPromises()},
		{"GroupMinutes", groupMinutesPromises()},
		{"TopicSummaries", topicSummariesPromises()},
		{"Search", searchPromises()},
		{"Count", matchingPromises()},
		{"Export", exportPromises()},
		{"ArchiveReading", archivedPromises()},
		{"SearchIndex", indexPromises()},
		{"Activity", activityPromises()},
		{"Events", eventsPromises()},
		{"Notifications", notificationsPromises()},
		{"ArchiveRuns", archiveRunsPromises()},
		{"RecentGroups", recentGroupsPromises()},
		{"RedriveBatches", redriveBatchesPromises()},
		{"Bounds", boundsPromises()},
		{"RetryAll", retryAllPromises()},
		{"Concurrency", concurrencyPromises()},
		{"Context", contextPromises()},
	}
}

// promise is one sentence of the storage contract, with the function that tests it.
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

// CoreFixture is an empty store that implements repository.Core.
type CoreFixture struct {
	Core   repository.Core
	Insert func(t *testing.T, m entity.Message) // inserts a message into the core's store, as Fixture.Insert does
}

// RunCore tests the promises of repository.Core only; Run tests those of repository.Repository.
func RunCore(t *testing.T, open func(t *testing.T, clock *Clock) CoreFixture) {
	t.Helper()
	for _, theme := range themes() {
		except, core := beyondCore[theme.name]
		if !core {
			continue
		}
		t.Run(theme.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range theme.promises {
				if !slices.Contains(except, p.name) {
					p.run(t, func(t *testing.T, clock *Clock) Fixture {
						f := open(t, clock)
						return Fixture{Repository: coreOnly{Core: f.Core}, Insert: f.Insert, core: true}
					})
				}
			}
		})
	}
}

// coreOnly implements repository.Repository for a store that has only Core. Its field Features is nil, so the test of a
// promise that uses a feature fails.
type coreOnly struct {
	repository.Core
	repository.Features
}

// beyondCore contains the names of the themes that RunCore tests. For each theme it lists the promises that RunCore
// leaves out, because their tests use features, or redrives that only a store with features accepts.
var beyondCore = map[string][]string{
	"List": {
		"HeadersOfAPageAreBounded", "LongKeyIsNotLoaded", "ReadsTakeRoom",
	},
	"Get": {
		"RecordOverALimitOfHeadersKeepsItsValue", "UnreadableKeepsReasonAndLastOffset",
	},
	"Bytes": nil,
	"Load": {
		"ReadsPartsOfAValue",
	},
	"Counts": nil,
	"Claim": {
		"LeavesOutWhatWasMappedSinceItWasPlanned",
	},
	"Finish":  nil,
	"Rescue":  nil,
	"Expired": nil,
	"History": nil,
	"Edits": {
		"GoWithTheirMessage", "OtherAttemptsAreKnownAsBefore", "WhatAPatchMadeIsKnownByItsNumber",
		"WhatWasSentIsKnownWhenItComesBack",
	},
	"Topics": nil,
	"Ingest": {
		"TimestampThatIsNoDateIsKeptAsANumber",
	},
	"Lineage": {
		"ArrivalAtTheLimitIsInTheTrail", "ForeignHeadersNeverKill",
	},
	"Repeats": nil,
	"Delete":  nil,
	"Requeue": nil,
	"GiveUp":  nil,
	"Again": {
		"ChangeCountsWhatTheOperationChanged", "ChangeGoesOnWithTheRest",
	},
	"Operations": nil,
	"Keys":       nil,
	"Due":        nil,
	"Redrives": {
		"ActiveAreOldestFirst", "CanaryIsPassedByItsMove", "CreationIsInTheTrail", "FinishesOnlyWhenEveryBatchIsDone",
		"IdThatExistsIsReturnedAsItIs", "ImpossibleOrdersAreInvalid", "ListIsNewestFirstByStateAndPlace",
		"MoveIsInTheTrail", "MovesAlongItsArrowsOnly", "NothingToDoIsFinishedAtOnce", "ResumeFromPausedForgivesNothing",
		"ResumeFromStoppedForgives", "ShowsWhatWasAskedFor", "UnknownIsNotFound", "WaitingIsForActiveOnesOnly",
	},
	"RedriveBatches": {
		"CanaryHandsOutTheCanaryOnly", "ConfiguredGroupTellsOfItemsThatNameNone", "ItemsComeByPageAndResult",
		"ItemsTellWhatBecameOfTheirRecords", "KeyOrderIsOneBatchAfterTheOther", "NothingIsLeasedBehindAPause",
		"OneOfManyCreates", "OneOfManyFinishes", "OneOfManyTakesOver", "OutcomesOfTheCanaryAlone", "OverlapsCountWhatWaitsInOthers",
		"RateHoldsForManyOwners", "RateLetsNoMoreThroughAndHasNoBurst", "RestOfABatchCountsForTheRate", "ReturnsAreGroupedByTheirErrors",
		"SaveInPartsComesTogether", "WhatTheDeadHadIsHandedOutInEveryState",
	},
	"RetryAll":    nil,
	"Concurrency": nil,
	"Context":     nil,
}

package repositorytest

import (
	"slices"
	"testing"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// CoreFixture is one empty store that keeps repository.Core.
type CoreFixture struct {
	Core   repository.Core
	Insert func(t *testing.T, m entity.Message) // as Fixture.Insert
}

// RunCore proves the promises of repository.Core, as Run does for all.
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

// coreOnly has no features: a promise that uses one fails.
type coreOnly struct {
	repository.Core
	repository.Features
}

// beyondCore has the themes of which Core promises something, and the names of those
// promises that need features, or are made of a redrive that does.
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
		"OneOfManyCreates", "OneOfManyFinishes", "OneOfManyTakesOver", "OutcomesOfTheCanaryAlone",
		"RateHoldsForManyOwners", "RateLetsNoMoreThroughAndHasNoBurst", "RestOfABatchCountsForTheRate",
		"SaveInPartsComesTogether", "WhatTheDeadHadIsHandedOutInEveryState",
	},
	"RetryAll":    nil,
	"Concurrency": nil,
	"Context":     nil,
}

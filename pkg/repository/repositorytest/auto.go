package repositorytest

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func autoPromises() []promise {
	return []promise{
		{"CountsSentKnownAndReturned", autoCounts},
		{"ClaimedMayBeSent", autoClaimed},
		{"WhatWasNotPublishedDoesNotCount", autoUnpublished},
		{"LatestAttemptOfAMessageCounts", autoAgain},
		{"SilenceIsAnOutcomeWhereNoGroupCommits", autoSilence},
		{"OnlyTheLastMinutesCount", autoWindow},
		{"TopicsAreCountedApart", autoTopics},
		{"OneOwnerUntilItsLeaseEnds", autoLease},
		{"PauseIsShownUntilItEnds", autoPause},
		{"LaterOfTwoPausesStays", autoTwoPauses},
		{"WhatWasSentBeforeThePauseEndedDoesNotCount", autoAfterPause},
	}
}

const autoLeaseTime = 10 * time.Second

var autoOwner = uuid.MustParse("a0000000-0000-4000-8000-000000000001")

// watchAuto returns the counts of the original topic, which the owner of the tests leases.
func (h *harness) watchAuto() repository.AutoTopic {
	h.Helper()
	got := check.Must(h.Repository.WatchAuto(h.Context(), autoOwner, []string{original, original}, autoLeaseTime))(h)
	check.Require(h, len(got) == 1 && got[0].Topic == original, "WatchAuto = %+v, want the topic %s", got, original)
	return got[0]
}

func (h *harness) wantAuto(sent, known, returned int) {
	h.Helper()
	check.Same(h, h.watchAuto(), repository.AutoTopic{Topic: original, Sent: sent, Known: known, Returned: returned}, "WatchAuto")
}

// autoClaim claims a message and stores that automatic retry sends it.
func (h *harness) autoClaim(id uuid.UUID) repository.Claim {
	h.Helper()
	c := intent(id)
	c.TopicID = "life-1"
	taken := h.claimAll(c)
	check.Require(h, len(taken) == 1, "Claim took %d, want 1", len(taken))
	check.NoError(h, h.Repository.SaveAutoSends(h.Context(), taken))
	return c
}

// autoSent returns a message that automatic retry has sent, and its claim. Its consumer group is billing.
func (h *harness) autoSent(changes ...func(*entity.Message)) (entity.Message, repository.Claim) {
	h.Helper()
	m := h.put(append([]func(*entity.Message){func(m *entity.Message) { m.Failure.ConsumerGroup = billing }}, changes...)...)
	c := h.autoClaim(m.ID)
	h.acknowledge(c)
	return m, c
}

func autoCounts(h *harness) {
	h.wantAuto(0, 0, 0)
	first, c := h.autoSent()
	h.autoSent()
	h.wantAuto(2, 0, 0)
	h.comeBack(first.ID, c.ID)
	h.wantAuto(2, 1, 1)
	h.saveCommitted(committed(billing, 42))
	h.wantAuto(2, 2, 1)
	h.sentBy(billing, "life-1")
	h.wantAuto(2, 2, 1)
}

func autoClaimed(h *harness) {
	c := h.autoClaim(h.put().ID)
	h.wantAuto(1, 0, 0)
	h.acknowledge(c)
	h.wantAuto(1, 0, 0)
}

func autoUnpublished(h *harness) {
	for _, verdict := range []entity.Verdict{entity.Failed, entity.Rejected, entity.GivenBack, entity.Refused} {
		h.finishAll(result(h.autoClaim(h.put().ID), verdict))
	}
	m, _ := h.autoSent()
	check.NoError(h, h.Repository.Delete(h.Context(), m.ID, entity.By("alice")))
	h.wantAuto(0, 0, 0)
}

func autoAgain(h *harness) {
	m := h.put()
	h.finishAll(result(h.autoClaim(m.ID), entity.Failed))
	h.acknowledge(h.autoClaim(m.ID))
	h.wantAuto(1, 0, 0)
}

func autoSilence(h *harness) {
	h.autoSent()
	h.autoSent(func(m *entity.Message) { m.Failure.ConsumerGroup = "" })
	h.saveGroups(repository.TopicGroup{Topic: original, Group: billing})
	h.saveCommitted(committed(billing, 41))
	h.clock.Advance(entity.DefaultCanaryWait - time.Second)
	h.wantAuto(2, 0, 0)
	h.clock.Advance(time.Second)
	h.wantAuto(2, 1, 0)
	h.configure(repository.TopicGroup{Topic: original, Group: billing})
	h.wantAuto(2, 0, 0)
}

func autoWindow(h *harness) {
	h.autoSent()
	h.clock.Advance(repository.AutoWindow - time.Second)
	h.autoSent()
	check.Same(h, h.watchAuto().Sent, 1, "sent in the window")
	h.clock.Advance(repository.AutoWindow)
	h.wantAuto(0, 0, 0)
}

func autoTopics(h *harness) {
	h.autoSent()
	other := h.autoClaim(h.put(ofTopic("payments")).ID)
	got := check.Must(h.Repository.WatchAuto(h.Context(), autoOwner, []string{"payments", "nobody"}, autoLeaseTime))(h)
	h.acknowledge(other)
	check.Require(h, len(got) == 2, "WatchAuto = %+v, want two topics", got)
	for _, topic := range got {
		want := repository.AutoTopic{Topic: topic.Topic}
		if topic.Topic == "payments" {
			want.Sent = 1
		}
		check.Same(h, topic, want, "WatchAuto")
	}
}

func autoLease(h *harness) {
	h.wantAuto(0, 0, 0)
	other := func() int {
		return len(check.Must(h.Repository.WatchAuto(h.Context(), uuid.New(), []string{original}, autoLeaseTime))(h))
	}
	h.clock.Advance(autoLeaseTime - time.Second)
	check.Same(h, other(), 0, "topics of another owner during the lease")
	h.wantAuto(0, 0, 0)
	h.clock.Advance(autoLeaseTime - time.Second)
	check.Same(h, other(), 0, "topics of another owner during the renewed lease")
	h.clock.Advance(time.Second)
	check.Same(h, other(), 1, "topics of another owner after the lease")
}

func (h *harness) pauseAuto(reason string, d time.Duration) entity.AutoPause {
	h.Helper()
	return check.Must(h.Repository.PauseAuto(h.Context(), original, reason, d))(h)
}

func (h *harness) wantPauseShown(want entity.AutoPause) {
	h.Helper()
	got := check.Must(h.Repository.TopicSummaries(h.Context(), repository.TopicQuery{}))(h)
	check.True(h, len(got) == 1 && got[0].AutoPause == want, "TopicSummaries = %+v, want the pause %+v", got, want)
}

func autoPause(h *harness) {
	h.put()
	h.wantPauseShown(entity.AutoPause{})
	p := h.pauseAuto("18 of 40", time.Minute)
	check.Same(h, p, entity.AutoPause{Until: h.clock.Kept().Add(time.Minute), Reason: "18 of 40"}, "PauseAuto")
	h.wantPauseShown(p)
	h.clock.Advance(time.Minute)
	h.wantPauseShown(entity.AutoPause{})
	check.Same(h, h.watchAuto().Pause, p, "last pause")
}

func autoTwoPauses(h *harness) {
	first := h.pauseAuto("first", time.Hour)
	check.Same(h, h.pauseAuto("shorter", time.Minute), first, "PauseAuto for a shorter time")
	second := h.pauseAuto("longer", 2*time.Hour)
	check.Same(h, h.watchAuto().Pause, second, "last pause")
	check.Same(h, second.Reason, "longer", "reason")
}

func autoAfterPause(h *harness) {
	m, c := h.autoSent()
	h.pauseAuto("m", time.Minute)
	h.autoSent()
	h.comeBack(m.ID, c.ID)
	check.Same(h, h.watchAuto().Sent, 0, "sent during the pause")
	h.clock.Advance(time.Minute)
	h.autoSent()
	check.Same(h, h.watchAuto().Sent, 1, "sent after the pause")
}

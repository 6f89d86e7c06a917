package repositorytest

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func eventsPromises() []promise {
	return []promise{
		{"BeginWithWhatHappensFromNowOn", eventsBegin},
		{"BeginAnewWhenNobodyLooked", eventsBeginAnew},
		{"TellOfDeadMessages", eventsDead},
		{"TellOfStoppedLoops", eventsLoop},
		{"TellOfRedrives", eventsRedrives},
		{"TellOfNewGroups", eventsNewGroup},
		{"TellOfGroupsThatCameBack", eventsRegressed},
		{"TellOfAGroupInTheTopicsWhereItCame", eventsGroupTopics},
		{"KnowMutedGroups", eventsMuted},
		{"KnowGroupsMutedInATopic", eventsMutedInATopic},
		{"TellOfSpikes", eventsSpike},
		{"TellOfNoSpikeAsUsual", eventsUsual},
		{"AreFoundInParts", eventsLimit},
		{"AreKeptByOne", eventsOnce},
		{"StayUntilTheyAreKept", eventsStay},
		{"AreKeptByOneBesideOthers", eventsTogether},
	}
}

func notificationsPromises() []promise {
	return []promise{
		{"AreHandedOutAsTheyWereKept", notificationsKept},
		{"WaitForTheWindow", notificationsWindow},
		{"TakeUpMoreOfTheSame", notificationsGrouped},
		{"StayApartBySinkKindAndObject", notificationsApart},
		{"SayTheSameOnceTaken", notificationsFrozen},
		{"AreNotRepeatedSoon", notificationsRepeat},
		{"AreTakenAtAPace", notificationsPace},
		{"AreTakenOnce", notificationsTogether},
		{"AreTakenAgainWhenTheClaimExpires", notificationsExpired},
		{"AreTriedAgain", notificationsRetried},
		{"PauseTheirSinkOnly", notificationsPause},
		{"KeepTheirClaim", notificationsForeignClaim},
		{"AreGivenUp", notificationsGivenUp},
		{"AreCounted", notificationsWaiting},
	}
}

const patience = time.Hour

// look calls Events until it has found at least the wanted number of events. Events may be found late, while other
// tests have older transactions open on the same server.
func (h *harness) look(want int, changes ...func(*repository.EventQuery)) repository.Events {
	h.Helper()
	q := repository.EventQuery{Limit: 100, Patience: patience}
	for _, change := range changes {
		change(&q)
	}
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for range 3000 {
		found := check.Must(h.Repository.Events(h.Context(), q))(h)
		if len(found.List) >= want {
			return found
		}
		<-pause.C
	}
	h.Fatalf("Events never found %d", want)
	return repository.Events{}
}

// watch calls Events for the first time, because the store finds only events that happen after the first call, and then
// advances the clock by a second.
func (h *harness) watch() {
	h.Helper()
	h.keep(h.look(0))
	h.clock.Advance(time.Second)
}

func (h *harness) keep(seen repository.Events, notifications ...repository.NewNotification) {
	h.Helper()
	h.keepIn(repository.KeptNotifications{Seen: seen, Notifications: notifications})
}

func (h *harness) keepIn(k repository.KeptNotifications) {
	h.Helper()
	ok := check.Must(h.Repository.KeepNotifications(h.Context(), k))(h)
	check.Require(h, ok, "KeepNotifications = %v, want it kept", ok)
}

// news finds the wanted number of events, completes them with KeepNotifications, and returns those that must be
// reported.
func (h *harness) news(want int, changes ...func(*repository.EventQuery)) []repository.Event {
	h.Helper()
	var news []repository.Event
	for range 3000 { // an event is found only after all earlier transactions on the server have ended, so ask again
		found := h.look(0, changes...)
		h.keep(found)
		for _, e := range found.List {
			if !e.At.Before(found.Since) {
				news = append(news, e)
			}
		}
		if len(news) >= want && !found.More {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	check.Require(h, len(news) == want, "found %d events %+v, want %d", len(news), news, want)
	return news
}

func (h *harness) wantEvent(got, want repository.Event) {
	h.Helper()
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	check.True(h, string(a) == string(b), "got event\n%s, want\n%s", a, b)
}

func eventsBegin(h *harness) {
	h.in(entity.Dead)
	h.came(h.fingerprint("old"), 1)
	h.clock.Advance(time.Second)
	found := h.look(0)
	for _, e := range found.List {
		check.True(h, e.At.Before(found.Since), "%+v is news, want what happened before %s to be none", e, found.Since)
	}
	check.True(h, found.Now == h.clock.Kept() && found.Since == found.Now,
		"Now = %s, Since = %s, want both the clock's %s", found.Now, found.Since, h.clock.Kept())
}

func eventsBeginAnew(h *harness) {
	h.watch()
	h.clock.Advance(patience - 2*time.Second)
	if found := h.look(0); found.Since == found.Now {
		h.Errorf("events began again before q.Patience had passed")
	}
	h.keep(h.look(0))
	h.in(entity.Dead)
	h.clock.Advance(patience + time.Second)
	if found := h.look(0); found.Since != found.Now {
		h.Errorf("Since = %s, want now, %s", found.Since, found.Now)
	}
}

func eventsDead(h *harness) {
	h.watch()
	m := h.in(entity.Dead)
	byHand := h.put(func(m *entity.Message) { m.OriginalTopic = "" })
	check.Must(h.Repository.MarkDead(h.Context(), byHand.ID, entity.By("alice")))(h)
	gone := h.in(entity.Dead)
	check.NoError(h, h.Repository.Delete(h.Context(), gone.ID, entity.By("alice")))
	at := h.clock.Kept()
	news := h.news(3)
	h.wantEvent(news[0], repository.Event{Kind: repository.MessageDead, At: news[0].At, Object: m.ID, Topics: []string{original}})
	h.wantEvent(news[1], repository.Event{Kind: repository.MessageDead, At: news[1].At, Object: byHand.ID, Topics: []string{deadLetter}})
	h.wantEvent(news[2], repository.Event{Kind: repository.MessageDead, At: at, Object: gone.ID})
	h.news(0)
}

func eventsLoop(h *harness) {
	m := h.put()
	h.watch()
	c := h.sendBack(m.ID)
	h.acknowledge(c)
	child := h.comeBack(m.ID, c.ID, func(m *entity.Message) { m.MaxRetries = 1 })
	check.Require(h, child.Status == entity.Dead, "the child is %s, want DEAD", child.Status)
	news := h.news(1)
	h.wantEvent(news[0], repository.Event{
		Kind: repository.LoopStopped, At: news[0].At, Object: child.ID, Topics: []string{child.OriginalTopic},
	})
}

func eventsRedrives(h *harness) {
	h.watch()
	stopped, _ := h.began(2)
	h.move(stopped.ID, repository.RedriveMove{To: entity.RedriveStopped, Note: "too much failed", Action: entity.ActionStop})
	finished := h.inState(entity.RedriveFinished)
	news := h.news(2)
	if end := news[0]; end.Kind != repository.RedriveStopped || end.Object != stopped.ID || end.Redrive.Note != "too much failed" ||
		end.Redrive.Selected != 2 || end.Redrive.Action != "retry" || !slices.Contains(end.Topics, original) {
		h.Errorf("got %+v, want the stopped redrive of 2", end)
	}
	want := repository.EndOf(h.redrive(finished.ID), entity.RedriveFinished)
	if end := news[1]; end.Kind != repository.RedriveFinished || end.Object != finished.ID || end.Redrive != want || want.Succeeded == 0 {
		h.Errorf("got %+v, want %+v", end, want)
	}
	h.move(stopped.ID, repository.RedriveMove{To: entity.RedriveRunning, Action: entity.ActionResume})
	h.news(0)
}

func eventsNewGroup(h *harness) {
	h.watch()
	f := h.fingerprint("out of stock")
	h.news(0) // the error group has a fingerprint, but no message has arrived in it, so there is no event
	at := h.clock.Kept()
	h.came(f, 2)
	h.wantEvent(h.news(1)[0], repository.Event{
		Kind: repository.GroupNew, At: at, Object: f.ID(), Topics: []string{original}, Class: f.Class, Title: f.Title,
	})
	h.came(f, 1)
	h.news(0)
}

func eventsRegressed(h *harness) {
	f := h.fingerprint("out of stock")
	ids := h.came(f, 1)
	h.watch()
	h.attempt(ids[0], entity.Acknowledged)
	h.clock.Advance(time.Hour / 2)
	at := h.clock.Kept()
	h.came(f, 1)
	h.wantEvent(h.news(1)[0], repository.Event{
		Kind: repository.GroupRegressed, At: at, Object: f.ID(), Topics: []string{original}, Class: f.Class, Title: f.Title,
		RegressedAt: at,
	})
	h.came(f, 1)
	h.news(0)
}

func eventsGroupTopics(h *harness) {
	f := h.fingerprint("out of stock")
	ids := h.came(f, 1)
	h.watch()
	h.attempt(ids[0], entity.Acknowledged)
	h.clock.Advance(time.Second)
	h.came(f, 1, func(m *entity.Message) { m.OriginalTopic = "payments" })
	got := h.news(1)[0]
	check.True(h, got.Kind == repository.GroupRegressed && slices.Equal(got.Topics, []string{"payments"}),
		"got %+v, want the group back in payments alone", got)
}

func eventsMuted(h *harness) {
	f := h.fingerprint("out of stock")
	ids := h.came(f, 2)
	check.Must(h.Repository.AnnotateGroup(h.Context(), f.ID(), repository.Annotation{Muted: new(true)}, nil, entity.By("alice")))(h)
	h.watch()
	h.attempt(ids[0], entity.Rejected)
	got := h.news(1)[0]
	check.True(h, got.Muted && got.Object == ids[0], "got %+v, want a muted one of %s", got, ids[0])
}

// eventsMutedInATopic: when an error group is muted in one of its topics, events of its messages in this topic are
// muted, and an event of the group names only its other topics.
func eventsMutedInATopic(h *harness) {
	f := h.fingerprint("out of stock")
	mine := h.came(f, 1)
	theirs := h.came(f, 1, func(m *entity.Message) { m.OriginalTopic = "payments" })
	if _, err := h.Repository.AnnotateGroup(h.Context(), f.ID(), repository.Annotation{Muted: new(true)}, h.patterns(original), entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	h.watch()
	h.attempt(mine[0], entity.Rejected)
	h.attempt(theirs[0], entity.Rejected)
	for _, got := range h.news(2) {
		check.True(h, got.Muted == (got.Object == mine[0]), "got %+v, want it muted in %s alone", got, original)
	}
	second := h.fingerprint("no credit")
	h.came(second, 1)
	if _, err := h.Repository.AnnotateGroup(h.Context(), second.ID(), repository.Annotation{Muted: new(true)}, h.patterns(original), entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	if got := h.news(1)[0]; got.Kind != repository.GroupNew || !got.Muted {
		h.Errorf("got %+v, want a new group that is muted wherever it came", got)
	}
	third := h.fingerprint("no driver")
	h.came(third, 1)
	h.came(third, 1, func(m *entity.Message) { m.OriginalTopic = "payments" })
	if _, err := h.Repository.AnnotateGroup(h.Context(), third.ID(), repository.Annotation{Muted: new(true)}, h.patterns(original), entity.By("alice")); err != nil {
		h.Fatal(err)
	}
	if got := h.news(1)[0]; got.Muted || !slices.Equal(got.Topics, []string{"payments"}) {
		h.Errorf("got %+v, want a new group in payments alone", got)
	}
}

func spikes(rule repository.SpikeRule) func(*repository.EventQuery) {
	return func(q *repository.EventQuery) { q.Spikes = &rule }
}

func eventsSpike(h *harness) {
	h.watch()
	rule := spikes(repository.SpikeRule{Factor: 3, Minimum: 5})
	h.documented(1, h.puts(4)...)
	h.news(0, rule)
	h.documented(1, h.puts(1)...)
	got := h.news(1, rule)[0]
	h.wantEvent(got, repository.Event{Kind: repository.Spike, At: h.clock.Kept(), Topics: []string{original}, Arrived: 5})
	h.clock.Advance(time.Minute)
	h.documented(1, h.puts(1)...)
	if got := h.news(1, rule)[0]; !got.Again || got.Arrived != 6 {
		h.Errorf("got %+v, want the same spike again, of 6", got)
	}
	h.clock.Advance(repository.SpikeOver - time.Minute)
	h.news(0, rule)
	h.documented(1, h.puts(9)...)
	h.clock.Advance(time.Minute)
	if got := h.news(1, rule)[0]; got.Again {
		h.Errorf("got %+v after an hour, want another spike", got)
	}
}

func eventsUsual(h *harness) {
	h.documented(1, h.puts(40)...) // 40 messages in one hour, more than an hour before the spike: ten on average in a quarter of an hour
	h.clock.Advance(2*time.Hour + 30*time.Minute)
	h.watch()
	h.documented(1, h.puts(20)...)
	h.news(0, spikes(repository.SpikeRule{Factor: 2.1, Minimum: 5}))
	got := h.news(1, spikes(repository.SpikeRule{Factor: 1, Minimum: 20}))[0]
	check.True(h, got.Arrived == 20 && got.Usual > 0 && got.Usual <= 10, "got %+v, want 20 with some 10 as usual", got)
}

func eventsLimit(h *harness) {
	h.watch()
	var want []uuid.UUID
	for range 5 {
		want = append(want, h.in(entity.Dead).ID)
	}
	var got []uuid.UUID
	for _, e := range h.news(5, func(q *repository.EventQuery) { q.Limit = 2 }) {
		got = append(got, e.Object)
	}
	h.wantSameIDs("dead messages", got, want)
}

func eventsOnce(h *harness) {
	h.watch()
	h.in(entity.Dead)
	first, second := h.look(1), h.look(1)
	h.keep(first, h.notification())
	ok, err := h.Repository.KeepNotifications(h.Context(), repository.KeptNotifications{Seen: second, Notifications: []repository.NewNotification{h.notification()}})
	check.True(h, err == nil && !ok, "KeepNotifications of the second = %v, %v, want it refused", ok, err)
	if n, _ := h.take("ops", 0); n.Events != 1 {
		h.Errorf("the notification has %d events, want the one of who was first", n.Events)
	}
}

func eventsStay(h *harness) {
	h.watch()
	m := h.in(entity.Dead)
	h.look(1)
	found := h.look(1)
	check.True(h, found.List[0].Object == m.ID, "found %+v the second time, want %s", found.List, m.ID)
}

func eventsTogether(h *harness) {
	h.watch()
	h.in(entity.Dead)
	seen := h.look(1)
	var kept atomic.Int32
	together(8, func(int) {
		ok, err := h.Repository.KeepNotifications(h.Context(), repository.KeptNotifications{Seen: seen, Notifications: []repository.NewNotification{h.notification()}})
		check.True(h, err == nil, "KeepNotifications: %v", err)
		if ok {
			kept.Add(1)
		}
	})
	check.Same(h, kept.Load(), 1, "kept the events")
}

// notification returns a new notification.
func (h *harness) notification(changes ...func(*repository.NewNotification)) repository.NewNotification {
	n := repository.NewNotification{
		ID: uuid.New(), Sink: "ops", Kind: repository.MessageDead, Object: original, Topics: []string{original}, Events: 1,
		First: h.clock.Kept(), Last: h.clock.Kept(), MessageIDs: []uuid.UUID{uuid.New()}, Detail: []byte(`{"a": 1}`),
	}
	for _, change := range changes {
		change(&n)
	}
	return n
}

// keepNotification stores a notification and returns it.
func (h *harness) keepNotification(changes ...func(*repository.NewNotification)) repository.NewNotification {
	h.Helper()
	n := h.notification(changes...)
	h.keep(h.look(0), n)
	return n
}

const notificationLease = time.Minute

func (h *harness) take(sink string, pace time.Duration) (n repository.Notification, claim uuid.UUID) {
	h.Helper()
	claim = uuid.New()
	n, _, err := h.Repository.ClaimNotification(h.Context(), repository.NotificationClaim{Sink: sink, ID: claim, Lease: notificationLease, Pace: pace})
	check.Require(h, err == nil, "ClaimNotification: %v", err)
	return n, claim
}

// wantTaken claims a notification and checks its id. want is uuid.Nil when no notification may be due.
func (h *harness) wantTaken(what string, want uuid.UUID) uuid.UUID {
	h.Helper()
	n, claim := h.take("ops", 0)
	check.Same(h, n.ID, want, "%s", what)
	return claim
}

func (h *harness) settle(r repository.NotificationResult) {
	h.Helper()
	check.NoError(h, h.Repository.SettleNotification(h.Context(), r))
}

func (h *harness) wantNotification(got repository.Notification, want repository.NewNotification) {
	h.Helper()
	var detail, wanted map[string]any
	_ = json.Unmarshal(got.Detail, &detail)
	_ = json.Unmarshal(want.Detail, &wanted)
	a, _ := json.Marshal(wanted)
	b, _ := json.Marshal(detail)
	check.True(h, string(a) == string(b), "Detail = %s, want %s", b, a)
	got.Detail, want.Detail = nil, nil
	a, _ = json.Marshal(got.NewNotification)
	b, _ = json.Marshal(want)
	check.True(h, string(a) == string(b), "got notification\n%s, want\n%s", a, b)
}

func notificationsKept(h *harness) {
	want := h.keepNotification(func(n *repository.NewNotification) {
		n.Topics, n.Events, n.Last = []string{"a", "b"}, 7, n.First.Add(time.Minute)
		n.Detail = []byte(`{"title": "it's \"broken\"", "n": [1, 2]}`)
	})
	at := h.clock.Kept()
	got, _ := h.take("ops", 0)
	h.wantNotification(got, want)
	check.True(h, got.CreatedAt == at && got.Attempts == 1 && got.LastError == "",
		"got %+v, want it made at %s, its first attempt", got, at)
	none := h.keepNotification(func(n *repository.NewNotification) { n.Object, n.Topics, n.MessageIDs = "x", []string{}, []uuid.UUID{} })
	got, _ = h.take("ops", 0)
	h.wantNotification(got, none)
}

func notificationsWindow(h *harness) {
	n := h.notification()
	h.keepIn(repository.KeptNotifications{Seen: h.look(0), Notifications: []repository.NewNotification{n}, Window: time.Minute})
	h.clock.Advance(59 * time.Second)
	h.wantTaken("before the window ends", uuid.Nil)
	h.clock.Advance(2 * time.Second)
	h.wantTaken("after it", n.ID)
}

func notificationsGrouped(h *harness) {
	first := h.keepNotification(func(n *repository.NewNotification) { n.Topics = []string{"b"} })
	h.clock.Advance(time.Second)
	more := h.keepNotification(func(n *repository.NewNotification) {
		n.Topics, n.Events, n.Detail = []string{"a", "b"}, 20, []byte(`{"a": 2}`)
		for len(n.MessageIDs) < 2*repository.MaxNotificationMessages {
			n.MessageIDs = append(n.MessageIDs, uuid.New())
		}
	})
	want := first
	want.Topics, want.Events, want.Last, want.Detail = []string{"a", "b"}, 21, more.Last, more.Detail
	want.MessageIDs = append(want.MessageIDs, more.MessageIDs...)[:repository.MaxNotificationMessages]
	got, _ := h.take("ops", 0)
	h.wantNotification(got, want)
	h.wantTaken("after the one", uuid.Nil)
}

func notificationsApart(h *harness) {
	h.keep(h.look(0), h.notification(),
		h.notification(func(n *repository.NewNotification) { n.Sink = "team" }),
		h.notification(func(n *repository.NewNotification) { n.Kind = repository.LoopStopped }),
		h.notification(func(n *repository.NewNotification) { n.Object = "payments" }))
	for sink, want := range map[string]int{"ops": 3, "team": 1, "nobody": 0} {
		got := 0
		for range 5 {
			if n, _ := h.take(sink, 0); n.ID != uuid.Nil {
				got++
			}
		}
		check.Same(h, got, want, "%s: took notifications", sink)
	}
}

func notificationsFrozen(h *harness) {
	first := h.keepNotification()
	taken, claim := h.take("ops", 0)
	second := h.keepNotification()
	h.settle(repository.NotificationResult{Notification: taken.ID, Claim: claim})
	again, _ := h.take("ops", 0)
	other, _ := h.take("ops", 0)
	if again.ID == second.ID {
		again, other = other, again
	}
	h.wantNotification(again, first)
	h.wantNotification(other, second)
}

func notificationsRepeat(h *harness) {
	n := h.keepNotification()
	h.settle(repository.NotificationResult{Notification: n.ID, Claim: h.wantTaken("the first", n.ID), Sent: true})
	h.clock.Advance(time.Minute)
	next := h.notification()
	other := h.notification(func(n *repository.NewNotification) { n.Object = "payments" })
	h.keepIn(repository.KeptNotifications{
		Seen: h.look(0), Notifications: []repository.NewNotification{next, other}, Repeat: 10 * time.Minute,
	})
	h.settle(repository.NotificationResult{Notification: other.ID, Claim: h.wantTaken("about something else", other.ID), Sent: true})
	h.clock.Advance(9*time.Minute - time.Second)
	h.wantTaken("before it may be repeated", uuid.Nil)
	h.clock.Advance(2 * time.Second)
	h.wantTaken("when it may", next.ID)
}

func notificationsPace(h *harness) {
	h.keep(h.look(0), h.notification(), h.notification(func(n *repository.NewNotification) { n.Object = "payments" }))
	if n, _ := h.take("ops", time.Second); n.ID == uuid.Nil {
		h.Errorf("took none, want the first")
	}
	h.clock.Advance(999 * time.Millisecond)
	h.wantTaken("too early", uuid.Nil)
	h.clock.Advance(time.Millisecond)
	if n, _ := h.take("ops", time.Second); n.ID == uuid.Nil {
		h.Errorf("took none after the pace, want the second")
	}
}

func notificationsTogether(h *harness) {
	h.keepNotification()
	var taken atomic.Int32
	together(8, func(int) {
		if n, _ := h.take("ops", 0); n.ID != uuid.Nil {
			taken.Add(1)
		}
	})
	check.Same(h, taken.Load(), 1, "took the notification")
}

func notificationsExpired(h *harness) {
	n := h.keepNotification()
	h.wantTaken("at first", n.ID)
	h.clock.Advance(notificationLease - time.Second)
	h.wantTaken("before the claim expires", uuid.Nil)
	h.clock.Advance(2 * time.Second)
	if got, _ := h.take("ops", 0); got.ID != n.ID || got.Attempts != 2 {
		h.Errorf("took %+v, want the notification the second time", got)
	}
}

func notificationsRetried(h *harness) {
	n := h.keepNotification()
	h.settle(repository.NotificationResult{Notification: n.ID, Claim: h.wantTaken("at first", n.ID), Error: "refused", RetryIn: time.Minute})
	h.clock.Advance(59 * time.Second)
	h.wantTaken("too early", uuid.Nil)
	h.clock.Advance(2 * time.Second)
	got, claim := h.take("ops", 0)
	check.True(h, got.ID == n.ID && got.Attempts == 2 && got.LastError == "refused",
		"took %+v, want the notification that was refused", got)
	h.settle(repository.NotificationResult{Notification: n.ID, Claim: claim, Sent: true})
	h.clock.Advance(time.Hour)
	h.wantTaken("after it was sent", uuid.Nil)
}

func notificationsPause(h *harness) {
	one := h.keepNotification()
	two := h.keepNotification(func(n *repository.NewNotification) { n.Object = "payments" })
	other := h.keepNotification(func(n *repository.NewNotification) { n.Sink = "team" })
	n, claim := h.take("ops", 0)
	h.settle(repository.NotificationResult{Notification: n.ID, Claim: claim, RetryIn: time.Hour, Pause: time.Minute})
	h.wantTaken("in the pause", uuid.Nil)
	if n, _ := h.take("team", 0); n.ID != other.ID {
		h.Errorf("another sink: took %s, want %s", n.ID, other.ID)
	}
	h.clock.Advance(time.Minute)
	left := two.ID
	if n.ID == two.ID {
		left = one.ID
	}
	h.wantTaken("after it", left)
}

func notificationsForeignClaim(h *harness) {
	n := h.keepNotification()
	h.wantTaken("at first", n.ID)
	h.settle(repository.NotificationResult{Notification: n.ID, Claim: uuid.New(), Sent: true})
	h.clock.Advance(notificationLease)
	h.wantTaken("after another claim's settling", n.ID)
}

func notificationsGivenUp(h *harness) {
	old := h.keepNotification()
	h.clock.Advance(time.Hour)
	h.keepNotification(func(n *repository.NewNotification) { n.Object = "payments" })
	taken := h.keepNotification(func(n *repository.NewNotification) { n.Sink = "team" })
	giveUp := func(want ...uuid.UUID) {
		h.Helper()
		ended := check.Must(h.Repository.GiveUpNotifications(h.Context(), time.Hour-time.Second, 10))(h)
		got := check.Each(ended, func(n repository.Notification) uuid.UUID { return n.ID })
		h.wantIDs("GiveUpNotifications", got, want)
	}
	giveUp(old.ID)
	giveUp()
	h.clock.Advance(time.Hour)
	if n, _ := h.take("team", 0); n.ID != taken.ID {
		h.Errorf("took %s, want %s", n.ID, taken.ID)
	}
	if ended, err := h.Repository.GiveUpNotifications(h.Context(), time.Hour-time.Second, 10); err != nil || len(ended) != 1 {
		h.Errorf("GiveUpNotifications = %v, %v, want only the unclaimed one", ended, err)
	}
}

func notificationsWaiting(h *harness) {
	h.keep(h.look(0), h.notification(func(n *repository.NewNotification) { n.Sink = "team" }))
	n := h.keepNotification()
	h.keepIn(repository.KeptNotifications{
		Seen: h.look(0), Window: time.Hour,
		Notifications: []repository.NewNotification{h.notification(func(n *repository.NewNotification) { n.Sink, n.Object = "late", "x" })},
	})
	h.clock.Advance(time.Minute)
	h.settle(repository.NotificationResult{Notification: n.ID, Claim: h.wantTaken("ops", n.ID), Sent: true})
	got, err := h.Repository.WaitingNotifications(h.Context())
	want := []repository.WaitingNotifications{{Sink: "late", Notifications: 1}, {Sink: "team", Notifications: 1, Overdue: time.Minute}}
	check.True(h, err == nil && slices.Equal(got, want), "WaitingNotifications = %+v, %v, want %+v", got, err, want)
}

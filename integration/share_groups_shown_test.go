package integration_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/integration/programs"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestShareGroupsAreShown: the API and the metrics show the share groups, a problem because of which a group's dead
// letters would be lost, and how many dead letters wait for their records. The test checks this while no ingester runs.
// When the ingester has stored the dead letters, nothing waits any more.
func TestShareGroupsAreShown(t *testing.T) {
	t.Parallel()
	s := newShared(t, false)
	wrong, disabled := s.prefix+"-wrong", programs.ShareGroupTopic(s.prefix, "disabled")
	s.kafka.create(disabled, 1)
	s.kafka.configureShareGroup(wrong, map[string]string{"errors.deadletterqueue.topic.name": disabled})
	consumer := s.kafka.startShareConsumer(s.group, s.topic)
	s.fail(3, "reject")
	has := func(metric string) bool {
		_, body := s.api.try(http.MethodGet, "/metrics", nil)
		return strings.Contains(string(body), "\n"+metric)
	}
	eventually(t, "the API counts what is not ingested", func() bool {
		return has(fmt.Sprintf(`dlq_pointers_waiting{state="not_ingested",topic=%q} 3`, s.dlq))
	})
	eventually(t, "there are nearly seven days until the retention of the topic ends", func() bool {
		return has(fmt.Sprintf(`dlq_pointers_source_seconds_left{topic=%q} 6`, s.topic))
	})
	check.NoError(t, consumer.Stop())

	eventually(t, "the group whose dead letters are lost is shown", func() bool {
		return has(fmt.Sprintf(`dlq_share_group_problems{code="not_enabled",group=%q} 1`, wrong))
	})
	list, err := s.ListShareGroupsWithResponse(t.Context())
	wantStatus(t, list, err, http.StatusOK)
	groups := list.JSON200.ShareGroups
	i := slices.IndexFunc(groups, func(g client.ShareGroup) bool { return g.Group == wrong })
	check.Require(t, i >= 0 && len(groups[i].Problems) == 1, "groups %+v, want %s with one problem", groups, wrong)
	check.True(t, strings.HasSuffix(*groups[i].Problems[0].Command, disabled+" --add-config errors.deadletterqueue.group.enable=true"),
		"command %s, want one that enables the topic", *groups[i].Problems[0].Command)
	i = slices.IndexFunc(groups, func(g client.ShareGroup) bool { return g.Group == s.group })
	check.Require(t, i >= 0, "groups %+v, want %s", groups, s.group)
	check.Equal(t, groups[i], client.ShareGroup{
		Group: s.group, DlqTopic: s.dlq, Topics: &[]string{s.topic}, Problems: []client.ShareProblem{},
	}, "the group without problems")

	s.startReady("ingester")
	s.completed(3)
	for _, m := range s.messages() {
		check.Equal(t, fmt.Sprintf("%s %t %d %t %d", *m.Completion, m.CompletionReason == nil, *m.Duplicates, m.SourceGone, *m.ConsumerAttempts),
			"completed true 0 false 1", "fields of a message")
	}
	eventually(t, "nothing waits any more", func() bool {
		return !has("dlq_pointers_source_seconds_left") && !has(fmt.Sprintf(`dlq_pointers_waiting{state="waiting",topic=%q}`, s.topic))
	})
}

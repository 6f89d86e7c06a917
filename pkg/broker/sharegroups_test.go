package broker_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/sharegroup"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// TestShareGroups: the client reads a share group's configuration and state, and the settings of topics and brokers
// that concern its dead letters.
func TestShareGroups(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	topic := createTopic(t, 2)
	ctx := testContext(t)
	client := check.Must(kgo.NewClient(kgo.SeedBrokers(stacktest.Kafka(t)...)))(t)
	defer client.Close()
	group, other := topic+".group", topic+".other"
	check.NoError(t, sharegroup.Configure(ctx, client, group, map[string]string{
		"errors.deadletterqueue.topic.name": "dlq." + topic, "errors.deadletterqueue.copy.record.enable": "true",
	}))
	check.NoError(t, sharegroup.Configure(ctx, client, other, nil)) // without a dead-letter topic

	groups := check.Must(c.ShareGroups(ctx))(t)
	check.True(t, slices.Contains(groups, broker.ShareGroup{Name: group, DeadLetterTopic: "dlq." + topic, CopiesRecords: true}),
		"ShareGroups = %+v, want %s", groups, group)
	check.True(t, !slices.ContainsFunc(groups, func(g broker.ShareGroup) bool { return g.Name == other }), "%s has no dead-letter topic", other)
	check.Len(t, check.Must(c.ShareOffsets(ctx, topic+".never"))(t), 0, "offsets of a group that does not exist")

	configs := check.Must(c.TopicConfigs(ctx, []string{topic, topic + ".missing"}, "cleanup.policy", "errors.deadletterqueue.group.enable"))(t)
	check.Equal(t, configs, map[string]map[string]string{
		topic: {"cleanup.policy": "delete", "errors.deadletterqueue.group.enable": "false"},
	}, "TopicConfigs")
	brokers := check.Must(c.BrokerConfigs(ctx, "errors.deadletterqueue.topic.name.prefix"))(t)
	check.Equal(t, brokers, []map[string]string{{"errors.deadletterqueue.topic.name.prefix": "dlq."}}, "BrokerConfigs")
	check.Equal(t, check.Must(c.Feature(ctx, "share.version"))(t), 2, "level of share.version")
	check.Equal(t, check.Must(c.Feature(ctx, "no.such"))(t), 0, "level of an unknown feature")
}

// TestShareGroupsOfAnOlderBroker: a broker without group configurations has no share groups.
func TestShareGroupsOfAnOlderBroker(t *testing.T) {
	t.Parallel()
	cfg := broker.Config{Brokers: fakeKafka(t, kfake.NumBrokers(1)).ListenAddrs(), SecurityProtocol: "PLAINTEXT"}
	check.Len(t, check.Must(openWith(t, cfg).ShareGroups(testContext(t)))(t), 0, "ShareGroups")
}

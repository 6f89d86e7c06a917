package sharegroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeadLetterTopic is the topic setting that allows share groups to write their dead letters to the topic. By default
// the broker also requires that the topic's name begins with "dlq.".
var DeadLetterTopic = kafka.ConfigEntry{ConfigName: "errors.deadletterqueue.group.enable", ConfigValue: "true"}

// Configure sets configs of a share group, such as errors.deadletterqueue.topic.name. It also makes the group start at
// the earliest record. It returns when the broker uses these configs.
func Configure(ctx context.Context, client *kgo.Client, group string, configs map[string]string) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	wanted := map[string]string{"share.auto.offset.reset": "earliest"}
	for name, value := range configs {
		wanted[name] = value
	}
	for name, value := range wanted {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, &value
		resource.Configs = append(resource.Configs, config)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("configure share group %s: %w", group, err)
	}
	for _, r := range res.Resources {
		if r.ErrorCode != 0 {
			return fmt.Errorf("configure share group %s: %w: %s", group, kerr.ErrorForCode(r.ErrorCode), deref(r.ErrorMessage))
		}
	}
	return awaitConfigs(ctx, client, group, wanted)
}

func awaitConfigs(ctx context.Context, client *kgo.Client, group string, wanted map[string]string) error {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, resource)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		res, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("describe share group %s: %w", group, err)
		}
		if len(res.Resources) != 1 {
			return errors.New("describe share group " + group + ": no answer")
		}
		set := 0
		for _, c := range res.Resources[0].Configs {
			if value, ok := wanted[c.Name]; ok && deref(c.Value) == value {
				set++
			}
		}
		if set == len(wanted) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("configure share group %s: %w", group, ctx.Err())
		case <-ticker.C:
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

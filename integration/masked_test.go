package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	client "github.com/dlq-manager/dlq-manager/clients/go"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/rest/openapi"
)

// hiddenText is a text that the test puts only into headers, which are masked from the second start of the API on.
const hiddenText = "Xanadu"

// The API and the console show the text of a masked header nowhere: not in an answer, a title, a search result, an
// export or a page. No notification and no log contains it either. This also holds for copies of the text, and for
// messages that were stored before the header was masked.
func TestMaskedHeaderIsNowhere(t *testing.T) {
	t.Parallel()
	n := newNotified(t)
	seed := func(message string) {
		n.failing("com.acme."+hiddenText, message+hiddenText, `{"order":1}`,
			kgo.RecordHeader{Key: "kafka_dlt-exception-stacktrace", Value: []byte("com.acme." + hiddenText + ": no\n\tat com.acme." + hiddenText + ".pay(Pay.java:7)")},
			kgo.RecordHeader{Key: "kafka_dlt-original-consumer-group", Value: []byte(hiddenText + "-group")},
			kgo.RecordHeader{Key: "x-customer", Value: []byte(hiddenText)})
	}
	seed("no credit for ")
	n.api = n.startReady("api")
	n.ClientWithResponses = n.client()
	n.takenIn()
	if found := n.search(client.SearchMessagesParams{Q: new(strings.ToLower(hiddenText))}); len(found.Messages) != 1 {
		t.Fatalf("without masks the text finds %d messages, want the one", len(found.Messages))
	}
	n.api.stop()
	hooked, chatted := len(n.hook.all()), len(n.chat.all())

	masks := "DLQ_MASKING_HEADERS=kafka_dlt-exception-*,kafka_dlt-original-consumer-group,x-customer"
	n.api = n.startReady("api", masks)
	n.ClientWithResponses = n.client()
	eventually(t, "the notifier looks for events", func() bool {
		var looking bool
		return n.db.Get(&looking, `SELECT began_at IS NOT NULL FROM dlq.notification_state`) == nil && looking
	})
	seed("no stock for ")
	ingester := n.startReady("ingester", masks)
	n.waitStored()
	eventuallyAs(t, masksAreUsed, "the search index uses the new masks", func() bool {
		return n.count(`NOT EXISTS (SELECT FROM dlq.message_documents d JOIN dlq.search_index c ON c.version = d.version WHERE d.message_id = dlq_messages.id)`) == 0
	})
	message := n.search(client.SearchMessagesParams{Limit: new(1)}).Messages[0]
	retried := n.redrive(client.RedriveOrder{Filter: &client.Filter{Topic: &n.target}})
	group := message.GroupId.String()
	n.hook.waitFor("a finished redrive", func(d delivery) bool { return d.kind == "redrive_finished" })

	asked := 0
	for _, path := range n.everyPage(message.Id.String(), group, retried.Id.String()) {
		for _, query := range []string{"", "?q=" + hiddenText[:5], "?source=archive", "?format=csv"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.api.url+path+query, nil)
			check.NoError(t, err)
			res, err := http.DefaultClient.Do(r)
			check.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			check.NoError(t, err)
			asked++
			if strings.Contains(strings.ToLower(string(body)), strings.ToLower(hiddenText)) {
				t.Errorf("GET %s%s shows the masked text: %s", path, query, body)
			}
		}
	}
	if asked < 100 {
		t.Errorf("%d requests were sent, want all GET operations of the OpenAPI document", asked)
	}
	if hits := n.search(client.SearchMessagesParams{Q: new(hiddenText)}).Messages; len(hits) != 0 {
		t.Errorf("free text finds %d messages, want none", len(hits))
	}
	n.hook.waitFor("the second group", func(d delivery) bool { return d.kind == "group_new" && strings.Contains(d.body, `"title":"***"`) })
	n.chat.waitFor("a finished redrive", func(d delivery) bool { return strings.Contains(d.text, "finished") })
	for _, d := range append(n.hook.all()[hooked:], n.chat.all()[chatted:]...) {
		if strings.Contains(d.body, hiddenText) {
			t.Errorf("a notification contains the masked text: %s", d.body)
		}
	}
	for _, p := range []*process{n.api, ingester} {
		log, err := os.ReadFile(p.log)
		if err != nil || strings.Contains(string(log), hiddenText) {
			t.Errorf("the log of %s contains the text, or cannot be read: %v", p.name, err)
		}
	}
}

// everyPage returns the paths of all routes of the API, and of the console's lists and detail pages. The ids of the
// message, the error group and the redrive are inserted into the paths.
func (n *notified) everyPage(message, group, redrive string) []string {
	n.t.Helper()
	var paths []string
	for _, path := range regexp.MustCompile(`(?m)^  (/\S+):$`).FindAllStringSubmatch(string(openapi.Document), -1) {
		for _, id := range []string{message, group, redrive} {
			paths = append(paths, strings.NewReplacer("{id}", id, "{topic}", n.target).Replace(path[1]))
		}
	}
	paths = append(paths,
		"/", "/messages", "/groups", "/topics", "/redrives", "/archive", "/audit", "/mapping",
		"/messages/"+message, "/groups/"+group, "/redrives/"+redrive)
	if _, err := uuid.Parse(message); err != nil {
		n.t.Fatal(fmt.Errorf("the message has no id: %w", err))
	}
	return paths
}

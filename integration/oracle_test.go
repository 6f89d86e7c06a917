package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// secretWord is a value in messages of another team, whose topics the viewer may not see.
const secretWord = "acme-hostile"

// oracleGuess makes a search query for values that begin with a prefix.
type oracleGuess struct {
	name  string
	query func(prefix string) url.Values
}

// oracleGuesses returns a query of each kind: of payloads, headers, error classes, consumer groups and words.
func oracleGuesses() []oracleGuess {
	ask := func(name, before string) oracleGuess {
		return oracleGuess{name, func(prefix string) url.Values { return url.Values{name: {before + prefix}} }}
	}
	return []oracleGuess{
		ask("payload", "$.merger="), ask("header", "deal="), ask("error_class", ""), ask("consumer_group", ""), ask("q", ""),
		{"q and topic", func(prefix string) url.Values { return url.Values{"q": {prefix}, "topic": {"alpha*"}} }},
		{"error_class and topic", func(prefix string) url.Values { return url.Values{"error_class": {prefix}, "topic": {"shared.dlq.v1"}} }},
		{"payload since 2001", func(prefix string) url.Values {
			return url.Values{"payload": {"$.merger=" + prefix}, "created_after": {"2001-01-01T00:00:00Z"}}
		}},
	}
}

// A viewer of some topics guesses values of another team's messages letter by letter. The API must give the same answer
// to right and to wrong guesses, although PostgreSQL's statistics, from which it estimates counts, cover all messages.
func TestOracle_CountsSayNothingAboutOtherTopics(t *testing.T) {
	t.Parallel()
	o := &operators{letters: newLetters(newSystem(t))}
	who := people(map[string][]grant{"viewer": {{"viewer", "alpha*"}}, "admin": {{"admin", "*"}}})
	o.seedTenants()
	o.api = o.startReady("api", withTokens(t, who)...)
	o.indexed()
	o.archiveHalf()
	if _, err := o.db.Exec(`ANALYZE dlq.dlq_messages, dlq.dlq_messages_archive, dlq.message_documents`); err != nil {
		t.Fatal(err)
	}
	hits := 0
	for _, list := range []string{"/api/v1/messages?", "/api/v1/archive?"} {
		for _, count := range []string{"estimate", "exact"} {
			for _, guess := range oracleGuesses() {
				for length := 3; length <= len(secretWord); length++ {
					right, wrong := secretWord[:length], secretWord[:length-1]+"#"
					ask := func(token, prefix string) string {
						query := guess.query(prefix)
						query.Set("count", count)
						query.Set("limit", "5")
						return o.answer(list+query.Encode(), token)
					}
					told, silent := ask(who["viewer"].token, right), ask(who["viewer"].token, wrong)
					if told != silent || told != `0 messages, {"messages":0,"exact":true}` {
						t.Errorf("%scount=%s, %s: %q gets %s, %q gets %s", list, count, guess.name, right, told, wrong, silent)
					}
					if length == len(secretWord) && !strings.Contains(guess.name, "and topic") &&
						ask(who["admin"].token, right) != ask(who["admin"].token, wrong) {
						hits++
					}
				}
			}
		}
	}
	if hits != 24 {
		t.Errorf("for users who see everything %d right guesses differ from wrong ones, want all 24: otherwise the attack proves nothing", hits)
	}
}

// seedTenants stores messages of two teams. The messages of the other team contain every prefix of secretWord that the
// viewer guesses.
func (o *operators) seedTenants() {
	o.t.Helper()
	if _, err := o.db.Exec(`
		INSERT INTO dlq.topics (name) VALUES ('alpha.dlq.v1'), ('beta.dlq.v1'), ('shared.dlq.v1');
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, error_class, consumer_group, status, value, headers, dlq_topic_id,
			dlq_incarnation_id, dlq_partition, dlq_offset)
		SELECT gen_random_uuid(), team || '.events.v1', 'failed: ' || secret, left(secret, 3 + n / 2 % 10), left(secret, 3 + n / 2 % 10), 'PENDING',
			convert_to(format('{"merger":"%s","n":%s}', left(secret, 3 + n / 2 % 10), n), 'UTF8'),
			'\x01046465616c'::bytea || set_byte('\x00', 0, 4 + n / 2 % 10) || convert_to(left(secret, 3 + n / 2 % 10), 'UTF8'), t.id, 0, 0, n
		FROM generate_series(1, 400) n
		CROSS JOIN (VALUES ('alpha', 'nothing-here'), ('beta', '` + secretWord + `')) AS teams (team, secret)
		JOIN dlq.topics t ON t.name = CASE WHEN n % 3 = 0 THEN 'shared' ELSE team END || '.dlq.v1'`); err != nil {
		o.t.Fatal(err)
	}
}

// archiveHalf moves every second message to the archive.
func (o *operators) archiveHalf() {
	o.t.Helper()
	var columns string
	if err := o.db.Get(&columns, `SELECT string_agg(column_name, ', ') FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = 'dlq_messages' AND is_generated = 'NEVER'`); err != nil {
		o.t.Fatal(err)
	}
	if _, err := o.db.Exec(`WITH moved AS (DELETE FROM dlq.dlq_messages WHERE dlq_offset % 2 = 0 RETURNING *)
		INSERT INTO dlq.dlq_messages_archive (` + columns + `) SELECT ` + columns + ` FROM moved`); err != nil {
		o.t.Fatal(err)
	}
}

// answer returns what the API's answer to a search shows: how many messages the page contains, and the count of all
// matching messages.
func (o *operators) answer(path, token string) string {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.api.url+path, nil)
	check.NoError(o.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	check.NoError(o.t, err)
	defer func() { _ = res.Body.Close() }()
	var found struct{ Messages, Count json.RawMessage }
	if err := json.NewDecoder(res.Body).Decode(&found); err != nil || res.StatusCode != http.StatusOK {
		o.t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
	}
	var messages []json.RawMessage
	check.NoError(o.t, json.Unmarshal(found.Messages, &messages))
	return fmt.Sprintf("%d messages, %s", len(messages), found.Count)
}

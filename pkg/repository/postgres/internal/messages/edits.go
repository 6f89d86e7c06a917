package messages

import (
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// editedStep is the part of claimQuery that stores the edits of the claimed messages. Its parameters are those after
// $17. claimQuery contains it only when a claim has an edit.
const editedStep = `, edited AS (
		INSERT INTO dlq.edits (message_id, attempt_id, target_topic, set_value, value, set_key, key, set_headers, headers,
			patch, record_hash, created_at)
		SELECT m.id, m.claim_id, e.target_topic, e.set_value, e.value, e.set_key, e.key, e.set_headers, e.headers,
			e.patch, e.record_hash, m.last_retry_at
		FROM unnest($18::uuid[], $19::uuid[], $20::text[], $21::bool[], $22::bytea[], $23::bool[], $24::bytea[], $25::bool[],
			$26::bytea[], $27::bytea[], $28::int8[])
			AS e (message_id, attempt_id, target_topic, set_value, value, set_key, key, set_headers, headers, patch, record_hash)
		JOIN claimed m ON m.id = e.message_id AND m.claim_id = e.attempt_id
		ON CONFLICT (message_id, attempt_id) DO NOTHING
	)`

// SentHashOf returns the SQL for the hash of the record that an attempt sends: the hash that is stored with its edit
// or, without an edit, the hash of the message's record. The parameter from is the SQL name of a row, and message and
// attempt are the names of its columns with the two ids. The result is a scalar subquery, which PostgreSQL can only
// answer with the primary key of dlq.edits. Usually that index shows that there is no edit.
func SentHashOf(from, message, attempt string) string {
	return `nullif(coalesce((SELECT e.record_hash FROM dlq.edits e WHERE e.message_id = ` + from + `.` + message +
		` AND e.attempt_id = ` + from + `.` + attempt + `), ` + from + `.record_hash), 0)`
}

// editOf returns the edit that is stored for a claim, without a value that a redrive's patch made. It returns nil when
// the claim has no edit, or an edit that changes nothing.
func editOf(c repository.Claim) *entity.Edit {
	if c.Edit.Empty() && (c.Edit == nil || c.Edit.Patch == nil) {
		return nil
	}
	e := *c.Edit
	if e.Patch != nil {
		e.Value = nil
	}
	return &e
}

// editArgs returns the arguments for the parameters of editedStep; it returns none when no claim has an edit.
func editArgs(claims []repository.Claim) []any {
	edits := make([]*entity.Edit, len(claims))
	n := 0
	for i, c := range claims {
		if edits[i] = editOf(c); edits[i] != nil {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	messages, attempts, topics := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDText, n, 24)
	setValues, values := codec.NewArray(codec.OIDBool, n, 1), codec.NewArray(codec.OIDBytea, n, 1024)
	setKeys, keys := codec.NewArray(codec.OIDBool, n, 1), codec.NewArray(codec.OIDBytea, n, 64)
	setHeaders, headers := codec.NewArray(codec.OIDBool, n, 1), codec.NewArray(codec.OIDBytea, n, 256)
	patches, hashes := codec.NewArray(codec.OIDBytea, n, 256), codec.NewArray(codec.OIDInt8, n, 8)
	for i, e := range edits {
		if e == nil {
			continue
		}
		messages.UUID(claims[i].MessageID)
		attempts.UUID(claims[i].ID)
		topics.OptionalText(e.Topic)
		setValues.Bool(e.SetValue)
		values.Bytes(e.Value)
		setKeys.Bool(e.SetKey)
		keys.Bytes(e.Key)
		setHeaders.Bool(e.SetHeaders)
		headers.Bytes(codec.PackHeaders(e.Headers))
		patches.Bytes(e.Patch)
		hashes.Int64(claims[i].SentHash)
	}
	return []any{
		messages.Arg(), attempts.Arg(), topics.Arg(), setValues.Arg(), values.Arg(), setKeys.Arg(), keys.Arg(),
		setHeaders.Arg(), headers.Arg(), patches.Arg(), hashes.Arg(),
	}
}

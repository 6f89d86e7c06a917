package postgres

import (
	"database/sql"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// editedStep stores the edits of the messages that a claim claims. Its parameters follow $17. The statement of a
// claim without edits does not have this part.
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

// sentHashOf returns the hash of the record that an attempt sends: that of its edit, else that of the message, both
// columns of from. As a scalar subquery it can only use the primary key, whose index mostly shows that there is no
// edit.
func sentHashOf(from, message, attempt string) string {
	return `nullif(coalesce((SELECT e.record_hash FROM dlq.edits e WHERE e.message_id = ` + from + `.` + message +
		` AND e.attempt_id = ` + from + `.` + attempt + `), ` + from + `.record_hash), 0)`
}

// editOf returns the stored form of the edit of a claim; nil when it changes nothing. The value that a redrive's patch
// made is not stored.
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

// editArgs are the parameters of editedStep; none when no claim has an edit.
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
	messages, attempts, topics := newColumn(oidUUID, n, 16), newColumn(oidUUID, n, 16), newColumn(oidText, n, 24)
	setValues, values := newColumn(oidBool, n, 1), newColumn(oidBytea, n, 1024)
	setKeys, keys := newColumn(oidBool, n, 1), newColumn(oidBytea, n, 64)
	setHeaders, headers := newColumn(oidBool, n, 1), newColumn(oidBytea, n, 256)
	patches, hashes := newColumn(oidBytea, n, 256), newColumn(oidInt8, n, 8)
	for i, e := range edits {
		if e == nil {
			continue
		}
		messages.uuid(claims[i].MessageID)
		attempts.uuid(claims[i].ID)
		topics.optionalText(e.Topic)
		setValues.bool(e.SetValue)
		values.bytes(e.Value)
		setKeys.bool(e.SetKey)
		keys.bytes(e.Key)
		setHeaders.bool(e.SetHeaders)
		headers.bytes(packHeaders(e.Headers))
		patches.bytes(e.Patch)
		hashes.int64(claims[i].SentHash)
	}
	return []any{
		messages.arg(), attempts.arg(), topics.arg(), setValues.arg(), values.arg(), setKeys.arg(), keys.arg(),
		setHeaders.arg(), headers.arg(), patches.arg(), hashes.arg(),
	}
}

// editColumns are the columns of an editRow, from dlq.edits e, left-joined.
const editColumns = `
	e.attempt_id AS edit_id, e.target_topic AS edit_topic, e.set_value AS edit_set_value, e.value AS edit_value,
	e.set_key AS edit_set_key, e.key AS edit_key, e.set_headers AS edit_set_headers, e.headers AS edit_headers,
	e.patch AS edit_patch`

type editRow struct {
	ID         uuid.NullUUID  `db:"edit_id"`
	Topic      sql.NullString `db:"edit_topic"`
	SetValue   sql.NullBool   `db:"edit_set_value"`
	Value      []byte         `db:"edit_value"`
	SetKey     sql.NullBool   `db:"edit_set_key"`
	Key        []byte         `db:"edit_key"`
	SetHeaders sql.NullBool   `db:"edit_set_headers"`
	Headers    []byte         `db:"edit_headers"`
	Patch      []byte         `db:"edit_patch"`
}

// edit returns nil for an attempt without an edit.
func (r *editRow) edit() (*entity.Edit, error) {
	if !r.ID.Valid {
		return nil, nil
	}
	headers, err := unpackHeaders(r.Headers)
	if err != nil {
		return nil, err
	}
	return &entity.Edit{
		Topic: r.Topic.String, SetValue: r.SetValue.Bool, Value: r.Value, SetKey: r.SetKey.Bool, Key: r.Key,
		SetHeaders: r.SetHeaders.Bool, Headers: headers, Patch: r.Patch,
	}, nil
}

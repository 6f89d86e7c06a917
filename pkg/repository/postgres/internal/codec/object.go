package codec

import (
	"database/sql"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// SetBytes sets the key, the headers, the value and the payload of r from a row of an archive object. It leaves out
// each part that is longer than its limit; when full is true, the page has no room left, and it leaves out all of them.
// It returns the number of bytes that it has set.
func (r *Row) SetBytes(row *repository.ArchivedRow, limits repository.ShownLimits, full bool) int64 {
	var size int64
	fits := func(n int, limit int64) bool {
		if full {
			limit = 0
		}
		if limit >= 0 && int64(n) > limit {
			return false
		}
		size += int64(n)
		return true
	}
	values := limits.Value
	if limits.NoValues {
		values = 0
	}
	if r.KeySize = lengthOf(row.Key); fits(len(row.Key), limits.Key) {
		r.Key = row.Key
	}
	packed := row.Packed
	if limits.Headers < 0 { // without a limit, only the bytes that viewFirst needs are kept
		packed = packed[:min(len(packed), packedLimit)]
	}
	if r.HasHeaders = (sql.NullBool{Bool: len(packed) > 1, Valid: true}); fits(len(packed), limits.Headers) {
		r.Headers = packed
	}
	if r.OmittedSHA256 = row.OmittedSHA256; row.OmittedSize != nil {
		r.OmittedSize = sql.NullInt64{Int64: *row.OmittedSize, Valid: true}
	}
	if row.Defect != nil {
		r.Defect = []byte(*row.Defect)
	}
	if r.ValueSize = lengthOf(row.Value); fits(len(row.Value), values) {
		r.Value = row.Value
	}
	if row.Value == nil && row.DLQTopicID == nil && row.Payload != nil {
		r.HasPayload = sql.NullBool{Bool: true, Valid: true}
		if fits(len(*row.Payload), values) {
			r.Payload = []byte(*row.Payload)
		}
	}
	return size
}

func lengthOf(b []byte) sql.NullInt64 { return sql.NullInt64{Int64: int64(len(b)), Valid: b != nil} }

package deadletter

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	idA = "01900000-0000-7000-8000-00000000000a"
	idB = "01900000-0000-7000-8000-00000000000b"
	idC = "01900000-0000-7000-8000-00000000000c"
)

func TestLineage(t *testing.T) {
	t.Parallel()
	whole := &Lineage{MessageID: uuid.MustParse(idA), RootID: uuid.MustParse(idB), RedriveID: uuid.MustParse(idC), RetryCount: 2}
	set := func(message, root, redrive, count string) []entity.Header {
		return []entity.Header{
			{Key: HeaderMessageID, Value: []byte(message)},
			{Key: HeaderRootID, Value: []byte(root)},
			{Key: HeaderRedriveID, Value: []byte(redrive)},
			{Key: HeaderRetryCount, Value: []byte(count)},
		}
	}
	tests := []struct {
		name    string
		headers []entity.Header
		want    *Lineage
	}{
		{"Whole", set(idA, idB, idC, "2"), whole},
		{"LastOccurrenceCounts", append(set(idC, idC, idA, "7"), set(idA, idB, idC, "2")...), whole},
		{"LastMalformedIsNotSkipped", append(set(idA, idB, idC, "2"), entity.Header{Key: HeaderRetryCount, Value: []byte("x")}), nil},
		{"LastNullIsNotSkipped", append(set(idA, idB, idC, "2"), entity.Header{Key: HeaderRedriveID}), nil},
		{"Absent", nil, nil},
		{
			"OnlyTheIDsOfMessageAndRedrive",
			[]entity.Header{set(idA, idB, idC, "2")[0], set(idA, idB, idC, "2")[2]},
			&Lineage{MessageID: whole.MessageID, RedriveID: whole.RedriveID},
		},
		{"NoMessage", set(idA, idB, idC, "2")[1:], nil},
		{"NoRedrive", append(set(idA, idB, idC, "2")[:2], set(idA, idB, idC, "2")[3]), nil},
		{"NotAnID", set("x", idB, idC, "2"), nil},
		{"NilID", set(uuid.Nil.String(), idB, idC, "2"), nil},
		{"OtherFormOfID", set("{"+idA+"}", idB, idC, "2"), nil},
		{"NegativeCount", set(idA, idB, idC, "-1"), nil},
		{"BinaryCount", set(idA, idB, idC, "\x00\x00\x00\x02"), nil},
		{"EmptyCount", set(idA, idB, idC, ""), nil},
		{"HugeCount", set(idA, idB, idC, "99999999999999999999"), nil},
		{"OtherCase", []entity.Header{{Key: "DLQ-Redrive-Id", Value: []byte(idC)}}, nil},
	}
	d := decoder(t, []string{"*.dlq.v1"})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := d.Decode("orders.dlq.v1", entity.Record{Headers: tt.headers}, time.Time{}, nil).Returned
			check.True(t, (got == nil) == (tt.want == nil) && (got == nil || *got == *tt.want),
				"Returned = %+v, want %+v", got, tt.want)
		})
	}
}

package entity

import (
	"testing"
	"time"
)

func TestExplanationOfAStoredMessage(t *testing.T) {
	t.Parallel()
	header := Derived{Source: ByHeader, Dialect: "connect", Header: "h", Confidence: CertaintyHigh}
	companion := Derived{Source: ByCompanion, Dialect: "k1s0", Header: "h", Confidence: CertaintyMedium}
	key := Derived{Source: ByRecord, Dialect: "uber-dlq", Confidence: CertaintyHigh}
	tests := []struct {
		name   string
		now    Derived
		stored Confidence
		want   Derived
	}{
		{"AsDerived", header, FromHeader, header},
		{"CompanionsAreHeaders", companion, FromHeader, companion},
		{"SoIsTheKey", key, FromHeader, key},
		{"AnOperatorSaidOtherwise", header, FromOperator, Derived{Source: ByOperator, Confidence: CertaintyHigh}},
		{"ARuleThatIsGone", header, FromMapping, Derived{Source: ByMapping, Confidence: CertaintyHigh}},
		{"ATopicThatCameLater", Derived{Source: ByName, Confidence: CertaintyLow}, FromNothing, NotDerived()},
		{"ATopicThatWentAway", NotDerived(), FromName, Derived{Source: ByName, Confidence: CertaintyLow}},
		{"ARowPutInBySQL", NotDerived(), "", NotDerived()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := Explanation{OriginalTopic: tt.now}.Of(&Message{Origin: Origin{Confidence: tt.stored}})
			if e.OriginalTopic != tt.want {
				t.Errorf("original topic = %+v, want %+v", e.OriginalTopic, tt.want)
			}
		})
	}
}

func TestExplanationKnowsNoMoreThanTheMessage(t *testing.T) {
	t.Parallel()
	header := Derived{Source: ByHeader, Header: "h", Confidence: CertaintyHigh}
	e := Explanation{OriginalPartition: header, OriginalOffset: header, OriginalTimestamp: header}
	for name, got := range e.Of(&Message{}).Fields() {
		if name != "original_topic" && got.Header != "" {
			t.Errorf("%s = %+v, want none: the message has no value", name, got)
		}
	}
	partition, offset := int32(1), int64(2)
	m := Message{Origin: Origin{Partition: &partition, Offset: &offset, Timestamp: time.Unix(1, 0)}}
	if got := e.Of(&m); got.OriginalPartition != header || got.OriginalOffset != header || got.OriginalTimestamp != header {
		t.Errorf("Of = %+v, want what was derived", got)
	}
}

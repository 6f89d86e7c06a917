package protocol_test

import (
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

func TestMurmur2Partition_AgreesWithJava(t *testing.T) {
	t.Parallel()
	// These hash values are from Kafka's own test of its Java hash function. The expected partitions follow from the hash
	// values with the mask and the modulus of Kafka's default partitioner.
	hashes := map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	}
	for key, hash := range hashes {
		for _, n := range []int{1, 6, 50} {
			got, want := protocol.Murmur2Partition([]byte(key), n), (hash&0x7fffffff)%int32(n)
			check.True(t, got == want, "Murmur2Partition(%q, %d) = %d, want %d", key, n, got, want)
		}
	}
}

func TestMurmur2Partition_AgreesWithKafkaGo(t *testing.T) {
	t.Parallel()
	partitions := make([]int, 37)
	for i := range partitions {
		partitions[i] = i
	}
	key := []byte{}
	for i := range 300 {
		want := kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, partitions...)
		got := protocol.Murmur2Partition(key, len(partitions))
		check.True(t, int(got) == want, "Murmur2Partition(%x) = %d, want %d", key, got, want)
		key = append(key, byte(i*37))
	}
}

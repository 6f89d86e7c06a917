package protocol

import "encoding/binary"

// Murmur2Partition returns the partition that Java's default partitioner chooses for a non-null key and n > 0
// partitions.
func Murmur2Partition(key []byte, n int) int32 { return int32(murmur2(key)&0x7fffffff) % int32(n) }

// murmur2 returns the Murmur2 hash of data, with the seed that Kafka uses.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

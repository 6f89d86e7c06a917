package entity

import (
	"crypto/sha256"
	"encoding/binary"
)

// RecordHash returns a hash of key and value together. With the hash, a record is recognised that comes back without
// the headers of dlq-manager. When key or value is null or empty, the hash is 0, which means no hash, because too many
// records without key or value would have the same hash. Equal hashes do not prove that two records are equal.
func RecordHash(key, value []byte) int64 {
	if len(key) == 0 || len(value) == 0 {
		return 0
	}
	var buffer []byte
	return hashOf(key, value, recordSum(key, value, &buffer))
}

func hashOf(key, value []byte, sum [sha256.Size]byte) int64 {
	n := int64(binary.BigEndian.Uint64(sum[:]))
	switch {
	case len(key) == 0 || len(value) == 0:
		return 0
	case n == 0:
		return 1
	}
	return n
}

// recordSum returns the SHA-256 of key and value. The length of the key makes "ab", "c" have another one than "a", "bc".
func recordSum(key, value []byte, buffer *[]byte) [sha256.Size]byte {
	*buffer = append(binary.BigEndian.AppendUint64((*buffer)[:0], uint64(len(key))), key...)
	*buffer = append(*buffer, value...)
	return sha256.Sum256(*buffer)
}

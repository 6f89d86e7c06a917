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
	h := sha256.New()
	var length [8]byte // the length makes "ab", "c" have another hash than "a", "bc"
	binary.BigEndian.PutUint64(length[:], uint64(len(key)))
	_, _ = h.Write(length[:]) // Write of a hash never returns an error
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	var sum [sha256.Size]byte
	n := int64(binary.BigEndian.Uint64(h.Sum(sum[:0])))
	if n == 0 {
		n = 1
	}
	return n
}

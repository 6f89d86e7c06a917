package entity

import (
	"crypto/sha256"
	"encoding/binary"
)

// RecordHash returns a number of key and value together, by which a record is
// found again that comes back without our headers. It is 0, which stands for
// none, when either is null or empty: too many records would be alike. Equal
// numbers do not prove that records are equal.
func RecordHash(key, value []byte) int64 {
	if len(key) == 0 || len(value) == 0 {
		return 0
	}
	h := sha256.New()
	var length [8]byte // keeps "ab", "c" and "a", "bc" apart
	binary.BigEndian.PutUint64(length[:], uint64(len(key)))
	_, _ = h.Write(length[:]) // a hash takes everything
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	var sum [sha256.Size]byte
	n := int64(binary.BigEndian.Uint64(h.Sum(sum[:0])))
	if n == 0 {
		n = 1
	}
	return n
}

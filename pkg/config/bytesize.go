package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes. It is written with a unit of powers of 1024 (KiB, MiB, GiB) or of powers of 1000 (kB,
// KB, MB, GB), with B, or without a unit. A fraction such as 1.5GiB is not allowed. Packages that must not import
// package config use an integer field instead; Load reads the same texts into every integer field.
type ByteSize int64

var errSize = errors.New("must be a size such as 64MiB, 64KiB or a number of bytes")

// byteUnits are the units and their numbers of bytes. "B" comes last, because every other unit ends in "B" too and must
// be tried first. The powers of 1024 come first, the largest before the smaller ones, because String uses the first one
// that divides the size.
var byteUnits = []struct {
	name string
	size int64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

// UnmarshalText reads a size. Negative sizes and sizes over 2^63-1 are errors.
func (b *ByteSize) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range byteUnits {
		if cut, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(cut), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return errSize
	}
	*b = ByteSize(n * unit)
	return nil
}

// String prints the size with the largest power of 1024 that divides it, or as a number of bytes, so that UnmarshalText
// reads exactly the same size.
func (b ByteSize) String() string {
	for _, u := range byteUnits[:3] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText returns the text of String.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

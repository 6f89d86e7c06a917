package avro

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/google/uuid"
)

// logical is a logical type of Avro whose values are written in JSON in a special form. Values of other logical types
// are written like those of the type that they annotate.
type logical uint8

const (
	plain logical = iota
	decimal
	uuidLogical // logical type uuid of a fixed type; a uuid that is a string needs no special form
	date
	timeMillis
	timeMicros
	stampMillis
	stampMicros
	stampNanos
	localMillis
	localMicros
	localNanos
)

func logicalOf(n *node, name string) logical {
	switch n.kind {
	case bytesKind, fixed:
		switch {
		case name == "decimal" && n.precision > 0 && n.scale >= 0:
			return decimal
		case name == "uuid" && n.kind == fixed && n.size == len(uuid.Nil):
			return uuidLogical
		}
	case integer:
		return map[string]logical{"date": date, "time-millis": timeMillis}[name]
	case long:
		return map[string]logical{
			"time-micros": timeMicros, "timestamp-millis": stampMillis, "timestamp-micros": stampMicros, "timestamp-nanos": stampNanos,
			"local-timestamp-millis": localMillis, "local-timestamp-micros": localMicros, "local-timestamp-nanos": localNanos,
		}[name]
	default:
	}
	return plain
}

// form describes how the values of a logical type for times are written.
type form struct {
	unit   time.Duration // unit of the stored number
	layout string
	span   time.Duration // upper limit for times of day; 0 for dates and timestamps, whose years must be 0 to 9999
}

const day = 24 * time.Hour

var forms = map[logical]form{
	date:        {day, time.DateOnly, 0},
	timeMillis:  {time.Millisecond, "15:04:05.000", day},
	timeMicros:  {time.Microsecond, "15:04:05.000000", day},
	stampMillis: {time.Millisecond, "2006-01-02T15:04:05.000Z", 0},
	stampMicros: {time.Microsecond, "2006-01-02T15:04:05.000000Z", 0},
	stampNanos:  {time.Nanosecond, "2006-01-02T15:04:05.000000000Z", 0},
	localMillis: {time.Millisecond, "2006-01-02T15:04:05.000", 0},
	localMicros: {time.Microsecond, "2006-01-02T15:04:05.000000", 0},
	localNanos:  {time.Nanosecond, "2006-01-02T15:04:05.000000000", 0},
}

// Seconds from the beginning of 1970 to the first second of the year 0 and to the last second of the year 9999.
const (
	firstSecond = -62167219200
	lastSecond  = 253402300799
)

// appendTime appends a time as text. ok is false when l is no type for times. It is also false when the time is out of
// range, so that it must be written as a number.
func appendTime(dst []byte, l logical, v int64) (out []byte, ok bool) {
	f, timed := forms[l]
	if !timed {
		return dst, false
	}
	perSecond := int64(time.Second / f.unit)
	var seconds, nanos int64
	if f.unit > time.Second {
		perDay := int64(f.unit / time.Second)
		if v > lastSecond/perDay || v < firstSecond/perDay {
			return dst, false
		}
		seconds = v * perDay
	} else {
		seconds, nanos = v/perSecond, (v%perSecond)*int64(f.unit)
	}
	if nanos < 0 {
		seconds, nanos = seconds-1, nanos+int64(time.Second)
	}
	if seconds < firstSecond || seconds > lastSecond || f.span > 0 && (seconds < 0 || seconds >= int64(f.span/time.Second)) {
		return dst, false
	}
	return append(time.Unix(seconds, nanos).UTC().AppendFormat(append(dst, '"'), f.layout), '"'), true
}

// parseTime returns the stored number of a time that appendTime has written as text.
func parseTime(l logical, text string) (int64, error) {
	f := forms[l]
	layout := f.layout
	// time.Parse accepts any number of digits after the seconds, so the number is checked here
	if at := strings.IndexByte(layout, '.'); at >= 0 {
		layout = layout[:at]
		switch l {
		case stampMillis, stampMicros, stampNanos:
			layout += "Z07:00"
		default: // the other types are local times, which have no time zone
		}
	}
	at, err := time.Parse(layout, text)
	if err != nil {
		return 0, fmt.Errorf("must be a time such as %s, or a number", f.layout)
	}
	if f.span > 0 {
		at = at.AddDate(1970, 0, 0)
	}
	if f.unit >= time.Second {
		return floorDiv(at.Unix(), int64(f.unit/time.Second)), nil
	}
	if int64(at.Nanosecond())%int64(f.unit) != 0 {
		return 0, fmt.Errorf("is more precise than the schema, which has units of %s", f.unit)
	}
	v := new(big.Int).Mul(big.NewInt(at.Unix()), big.NewInt(int64(time.Second/f.unit)))
	v.Add(v, big.NewInt(int64(at.Nanosecond())/int64(f.unit)))
	if !v.IsInt64() {
		return 0, errors.New("is out of the range of 64 bits")
	}
	return v.Int64(), nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// maxDecimal is the maximum size in bytes of a decimal that is translated, because the time for translating grows with
// the square of the size.
const maxDecimal = 4 << 10

var errDecimal = fmt.Errorf("a decimal is longer than %d bytes", maxDecimal)

// appendDecimal appends a decimal number as text. The scale is the number of digits after the decimal point.
func appendDecimal(dst, b []byte, scale int) ([]byte, error) {
	if len(b) > maxDecimal || scale > maxDecimal {
		return dst, errDecimal
	}
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	digits := new(big.Int).Abs(v).String()
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	dst = append(dst, '"')
	if v.Sign() < 0 {
		dst = append(dst, '-')
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-scale:]...)
	}
	return append(dst, '"'), nil
}

// parseDecimal returns a decimal in two's complement, in as few bytes as possible, or with the size of a fixed type.
func parseDecimal(text string, n *node) ([]byte, error) {
	if n.scale > maxDecimal || n.size > maxDecimal {
		return nil, errDecimal
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if whole == "" || len(text) > maxDecimal || strings.Trim(whole+fraction, "0123456789") != "" {
		return nil, errors.New("must be a decimal number such as \"12.50\"")
	}
	for len(fraction) > n.scale && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	if len(fraction) > n.scale {
		return nil, fmt.Errorf("has more than the %d digits after the point that the schema allows", n.scale)
	}
	digits := whole + fraction + strings.Repeat("0", n.scale-len(fraction))
	if len(strings.TrimLeft(digits, "0")) > n.precision {
		return nil, fmt.Errorf("has more than the %d digits that the schema allows", n.precision)
	}
	v, _ := new(big.Int).SetString(digits, 10)
	if strings.HasPrefix(text, "-") {
		v.Neg(v)
	}
	return twosComplement(v, n.size), nil
}

// twosComplement returns a number in two's complement, in at least size bytes.
func twosComplement(v *big.Int, size int) []byte {
	if v.Sign() >= 0 {
		size = max(size, v.BitLen()/8+1)
	} else {
		size = max(size, new(big.Int).Not(v).BitLen()/8+1)
		v = new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return v.FillBytes(make([]byte, size))
}

func appendUUID(dst, b []byte) []byte {
	text := hex.EncodeToString(b)
	return append(dst, `"`+text[:8]+"-"+text[8:12]+"-"+text[12:16]+"-"+text[16:20]+"-"+text[20:]+`"`...)
}

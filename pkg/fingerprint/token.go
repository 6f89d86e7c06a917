package fingerprint

import (
	"slices"
	"strings"
)

// token consumes the letters and digits at i. When an address, a timestamp or a similar text begins there, it consumes
// that text completely.
func (t *titler) token() {
	if t.i == 0 || !isChunk(t.s[t.i-1]) {
		if t.chunk() {
			return
		}
	}
	if isDigit(t.s[t.i]) && (t.clock() || t.ip4()) || t.uuid() || t.ip6() || t.writtenDate() {
		return
	}
	end := run(t.s, t.i, isAlnum)
	switch text := t.s[t.i:end]; {
	case text[0] == '0' && len(text) > 2 && text[1]|0x20 == 'x' && allHex(text[2:]):
		t.put("<hex>", end)
	case t.isNamedCode(text):
		t.keep(text)
		t.word = ""
	case isHash(text):
		t.put("<hex>", end)
	case isDigit(text[0]):
		t.number()
	default:
		t.name(text)
	}
}

// chunk consumes texts that are recognised by a character in their middle, such as e-mail addresses, URLs, and hosts
// with ports.
func (t *titler) chunk() bool {
	end := run(t.s, t.i, isChunk)
	switch at(t.s, end) {
	case '@':
		return t.email(end)
	case ':':
		if strings.HasPrefix(t.s[end:], "://") {
			return t.url(end)
		}
		return t.host(end)
	}
	if strings.HasPrefix(t.s[t.i:], "eyJ") && end-t.i > 40 {
		t.put("<id>", end) // a token that contains JSON, such as a JWT
		return true
	}
	return false
}

// isChunk reports whether a byte may be part of a host or mailbox name.
func isChunk(b byte) bool { return isAlnum(b) || b == '.' || b == '-' || b == '_' || b == '+' }

// name consumes a text that begins with a letter.
func (t *titler) name(text string) {
	letters := run(text, 0, isLetter)
	tail := text[letters:]
	count := countDigits(tail)
	switch {
	case count == 0 || technical(text):
		t.keep(text)
	case count == len(tail) && (letters > 2 || count > 2):
		t.keep(text[:letters])
		t.put("<n>", t.i+len(tail))
	case count == len(tail), count <= 2 && len(text)-count >= 4, len(text) < 5 && count < 2:
		t.keep(text)
	case isDuration(text):
		t.put("<time>", t.i+len(text))
	default:
		t.put("<id>", t.i+len(text))
	}
}

func (t *titler) keep(word string) {
	t.word = word
	t.out = append(t.out, word...)
	t.i += len(word)
}

// technical reports whether a text is a known technical word that contains digits.
func technical(text string) bool {
	switch strings.ToLower(text) {
	case "utf8", "utf16", "utf32", "sha1", "sha256", "sha384", "sha512", "md5", "base32", "base64", "x509", "ipv4", "ipv6",
		"http2", "http3", "oauth2", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
		"iso8601", "rfc3339", "log4j", "log4j2", "i18n", "l10n", "k8s", "x86", "amd64", "arm64", "utf8mb4", "hmacsha256", "rs256", "hs256", "es256", "sasl2":
		return true
	}
	return false
}

// isHash reports whether a text is a hash: at least eight hexadecimal characters with letters and digits, or only
// letters in the length of a usual hash. Texts that are numbers, such as 12345678, 12345678B and 1234567e8, are not
// hashes.
func isHash(text string) bool {
	n := countDigits(text)
	if n == 0 {
		return slices.Contains([]int{8, 16, 32, 40, 64}, len(text)) && allHex(text)
	}
	bytes := n == len(text)-1 && text[n] == 'B'
	return len(text) >= 8 && n < len(text) && allHex(text) && !bytes && !isExponent(text)
}

// isExponent reports whether a text is a number with an exponent, such as 12345e10.
func isExponent(text string) bool {
	at := run(text, 0, isDigit)
	return at > 0 && at < len(text) && text[at]|0x20 == 'e' && at+1 < len(text) && run(text, at+1, isDigit) == len(text) && len(text)-at <= 4
}

func allHex(text string) bool { return run(text, 0, isHex) == len(text) }

func (t *titler) uuid() bool {
	s := t.s[t.i:]
	if len(s) < 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || !ended(s, 36) {
		return false
	}
	for i := range 36 {
		if i != 8 && i != 13 && i != 18 && i != 23 && !isHex(s[i]) {
			return false
		}
	}
	t.put("<id>", t.i+36)
	return true
}

// identity consumes an @ and the text after it, outside of e-mail addresses: the identity of an object, or an offset.
func (t *titler) identity() bool {
	end := run(t.s, t.i+1, isHex)
	text := t.s[t.i+1 : end]
	if !ended(t.s, end) || len(text) == 0 || len(text) > 16 || countDigits(text) == 0 && len(text) < 6 {
		return false
	}
	t.out = append(t.out, '@')
	t.put("<hex>", end)
	return true
}

// quoted consumes a quotation mark and, if a short code such as 'C-4711' follows, also the code. Words in quotes are
// treated like words without quotes.
func (t *titler) quoted() {
	end := t.i + 1
	lower, letters, numbers := 0, 0, 0
	for ; end < len(t.s) && end-t.i < 64; end++ {
		b := t.s[end]
		switch {
		case isDigit(b):
			numbers++
			lower = 0
		case b >= 'a' && b <= 'z':
			letters++
			lower++
		case b >= 'A' && b <= 'Z':
			letters++
			lower = 0
		case b == '-' || b == '_' || b == '#':
			lower = 0
		default:
			lower = 3
		}
		if lower >= 3 {
			break
		}
	}
	text := t.s[t.i+1 : end]
	if at(t.s, end) != t.s[t.i] || letters == 0 || numbers == 0 || isHash(text) || t.isNamedCode(text) || text[0]|0x20 == 'v' && countDigits(text) == len(text)-1 {
		t.copy(1)
		return
	}
	t.out = append(t.out, t.s[t.i])
	t.put("<id>", end)
	t.out = append(t.out, t.s[end])
	t.i++
}

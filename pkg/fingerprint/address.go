package fingerprint

import "strings"

// ip4 consumes an IPv4 address, together with a port or the prefix length of a network after it.
func (t *titler) ip4() bool {
	end := ip4End(t.s, t.i)
	if end == 0 {
		return false
	}
	t.put("<addr>", portEnd(t.s, end))
	return true
}

func ip4End(s string, i int) int {
	for part := range 4 {
		end := digits(s, i, 4)
		if end == i || end > i+3 || part < 3 && at(s, end) != '.' {
			return 0
		}
		i = end + 1
	}
	if i--; !ended(s, i) || at(s, i) == '.' && isDigit(at(s, i+1)) {
		return 0
	}
	return i
}

func portEnd(s string, i int) int {
	if b := at(s, i); b == ':' || b == '/' {
		if end := digits(s, i+1, 6); end > i+1 && end <= i+6 && ended(s, end) {
			return end
		}
	}
	return i
}

// ip6 consumes an IPv6 address with eight groups, or with :: and a digit.
func (t *titler) ip6() bool {
	end := ip6End(t.s, t.i)
	if end == 0 {
		return false
	}
	t.put("<addr>", portSlash(t.s, end))
	return true
}

func portSlash(s string, i int) int {
	if at(s, i) == '/' {
		return portEnd(s, i)
	}
	return i
}

func ip6End(s string, i int) int {
	groups, gap, numbers := 0, false, 0
	from := i
	for i < len(s) && i-from < 48 {
		end := run(s[:min(len(s), i+5)], i, isHex)
		if end-i > 4 {
			return 0
		}
		if end > i {
			groups++
			numbers += countDigits(s[i:end])
		}
		if at(s, end) == '.' && gap || at(s, end) == '.' && groups == 7 {
			if e := ip4End(s, i); e > 0 {
				return zoned(s, e)
			}
		}
		i = end
		if at(s, i) != ':' {
			break
		}
		if at(s, i+1) == ':' {
			if gap {
				return 0
			}
			gap = true
			i += 2
			continue
		}
		if end == from || !isHex(at(s, i+1)) {
			break
		}
		i++
	}
	if !ended(s, i) || at(s, i) == ':' && groups != 8 || (groups != 8 || gap) && (!gap || numbers == 0 || groups > 7) {
		return 0
	}
	return zoned(s, i)
}

func zoned(s string, i int) int {
	if at(s, i) == '%' {
		if end := run(s[:min(len(s), i+17)], i+1, isAlnum); end > i+1 && ended(s, end) {
			return end
		}
	}
	return i
}

// bracketed consumes an IPv6 address in brackets, with or without a port, such as [::1]:9092.
func (t *titler) bracketed() bool {
	end := ip6End(t.s, t.i+1)
	if end == 0 || at(t.s, end) != ']' {
		return false
	}
	t.put("<addr>", portEnd(t.s, end+1))
	return true
}

// email consumes an e-mail address. The part before the @ is the text from t.i to end.
func (t *titler) email(end int) bool {
	domain := end + 1
	stop := run(t.s, domain, isChunk)
	for stop > domain && !isAlnum(t.s[stop-1]) {
		stop--
	}
	dot := strings.LastIndexByte(t.s[domain:stop], '.')
	if dot < 1 || stop-domain-dot < 3 || run(t.s, domain+dot+1, isLetter) < stop {
		return false
	}
	t.put("<email>", stop)
	return true
}

// host consumes the name of a host, together with a colon and a port. The name must be localhost or contain a dot, and
// must not be that of a source file or a number.
func (t *titler) host(end int) bool {
	name := t.s[t.i:end]
	port := digits(t.s, end+1, 6)
	if port < end+3 || port > end+6 || !ended(t.s, port) || at(t.s, port) == '.' && isDigit(at(t.s, port+1)) {
		return false
	}
	dot := strings.LastIndexByte(name, '.')
	if name != "localhost" && (dot < 1 || isSource(name[dot+1:]) || run(name, 0, func(b byte) bool { return isDigit(b) || b == '.' }) == len(name)) {
		return false
	}
	t.put("<addr>", port)
	return true
}

// isSource reports whether files with this extension are source code. A number after the name of a source file is a
// line number and not a port.
func isSource(extension string) bool {
	switch strings.ToLower(extension) {
	case "java", "kt", "kts", "scala", "groovy", "clj", "py", "js", "mjs", "cjs", "ts", "tsx", "jsx", "go", "rb", "php", "cs", "fs", "vb",
		"rs", "c", "cc", "cpp", "h", "hpp", "swift", "sql", "xml", "json", "yaml", "yml", "ex", "erl", "hs", "lua", "pl", "sh", "html", "avsc", "proto":
		return true
	}
	return false
}

// url consumes the scheme of a URL, and drops everything before an @ in front of the path, because that part may
// contain a password. The other methods of titler process the host and the path of the URL. A query or fragment becomes
// ?<id>.
func (t *titler) url(end int) bool {
	t.out = append(t.out, t.s[t.i:end+3]...)
	t.i, t.word = end+3, ""
	stop := run(t.s, t.i, isURL)
	if a := strings.LastIndexByte(t.s[t.i:run(t.s, t.i, isAuthority)], '@'); a >= 0 {
		t.i += a + 1
	}
	query := strings.IndexAny(t.s[t.i:stop], "?#")
	if query < 0 {
		return true
	}
	for n := placeholderAt(t.s, stop); n > 0; n = placeholderAt(t.s, stop) {
		stop = run(t.s, stop+n, isURL) // in a title that is processed again, <id> has already replaced the query
	}
	part := titler{s: t.s[:t.i+query], i: t.i, out: t.out}
	for part.i < len(part.s) && len(part.out) <= maxTitle {
		part.next()
	}
	t.out = append(part.out, '?')
	t.put("<id>", stop)
	return true
}

func isURL(b byte) bool {
	return !isSpace(b) && strings.IndexByte("\"'`<>()[]{},;|\\", b) < 0
}

func isAuthority(b byte) bool { return isURL(b) && b != '/' && b != '?' && b != '#' }

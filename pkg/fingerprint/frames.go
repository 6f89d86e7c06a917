package fingerprint

import "strings"

// readFrame reads a frame from a line of a stack trace. A frame may continue on the line below: used is the number of
// bytes that belong to the frame in rest, the text after the line.
func readFrame(line, rest string) (f frame, used int, ok bool) {
	switch {
	case strings.HasPrefix(line, "at "):
		f, ok = atFrame(line[3:])
	case strings.HasPrefix(line, `File "`):
		f, ok = pythonFrame(line)
	case line[0] == '#':
		f, ok = phpFrame(line)
	case strings.HasPrefix(line, "created by "), strings.HasPrefix(line, "goroutine "):
	case strings.Contains(line, ".rb:"):
		f, ok = rubyFrame(strings.TrimPrefix(line, "from "))
	case isDigit(line[0]):
		return rustFrame(line, rest)
	default:
		return goFrame(line, rest)
	}
	return f, 0, ok
}

// atFrame reads the text after "at " in traces of Java, .NET and JavaScript.
func atFrame(text string) (frame, bool) {
	text = strings.TrimPrefix(text, "async ")
	text = strings.TrimPrefix(text, "new ")
	open := strings.IndexByte(text, '(')
	switch {
	case open > 0 && text[open-1] == ' ':
		return scriptFrame(strings.TrimSpace(text[:open]), strings.Trim(text[open:], "()"))
	case open < 0 || strings.HasPrefix(text, "file:") || text[0] == '/':
		return scriptFrame("", text)
	}
	name := text[:open]
	proxy := proxyEnd(name)
	if proxy > 0 {
		name = name[:proxy]
	}
	if slash := strings.LastIndexByte(name, '/'); slash >= 0 { // drops the text before the slash, which names the module or the class loader
		name = name[slash+1:]
	}
	name = stable(name)
	return frame{name: name, lib: proxy > 0 || strings.HasPrefix(name, "<")}, name != ""
}

// proxyEnd returns where, in the name of a generated class, the fixed part ends and the number begins; 0 when the class
// is not generated.
func proxyEnd(name string) int {
	for _, proxy := range [...]string{"$$EnhancerBy", "$$FastClassBy", "$$SpringCGLIB", "$$Lambda"} {
		if at := strings.Index(name, proxy); at >= 0 {
			return at + len(proxy)
		}
	}
	return 0
}

// stable removes the numbers that compilers put into the names of methods of lambdas and anonymous classes.
func stable(name string) string {
	name = clean(name, maxClass)
	if !strings.ContainsAny(name, "$<") {
		return name
	}
	withoutDigits := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	parts := strings.SplitAfter(name, ".")
	for i, part := range parts {
		if strings.ContainsAny(part, "$<") {
			parts[i] = strings.Map(withoutDigits, part)
		}
	}
	return strings.Join(parts, "")
}

// scriptFrame makes a frame of JavaScript from a function and its position, file:line:column.
func scriptFrame(function, place string) (frame, bool) {
	file := strings.TrimPrefix(withoutPosition(place), "file://")
	if file == place || file == "" {
		return frame{}, false // a line without a position is not a frame, or it is a frame of native code
	}
	if function == "Object.<anonymous>" || function == "<anonymous>" {
		function = ""
	}
	if at := strings.Index(function, " [as "); at >= 0 {
		function = function[:at]
	}
	lib := strings.HasPrefix(file, "node:") || strings.HasPrefix(file, "internal/") || strings.Contains(file, "node_modules/") || file == "native"
	return located(file, function, lib), true
}

// withoutPosition removes :line or :line:column after the name of a file.
func withoutPosition(place string) string {
	for range 2 {
		at := strings.LastIndexByte(place, ':')
		if at < 0 || at+1 == len(place) || digits(place, at+1, 9) != len(place) {
			break
		}
		place = place[:at]
	}
	return place
}

// located names a frame by its function and the end of its file's path. The beginning of the path depends on where the
// application is installed.
func located(file, function string, lib bool) frame {
	file = strings.ReplaceAll(clean(file, maxClass), `\`, "/")
	short := file
	if at := strings.LastIndexByte(file, '/'); at > 0 {
		short = file[strings.LastIndexByte(file[:at], '/')+1:]
	}
	return frame{name: strings.TrimSpace(short + " " + stable(function)), path: file, lib: lib}
}

// pythonFrame reads a line such as File "/app/orders.py", line 12, in handle.
func pythonFrame(line string) (frame, bool) {
	file, rest, ok := strings.Cut(line[len(`File "`):], `"`)
	if !ok || !strings.HasPrefix(rest, ", line ") {
		return frame{}, false
	}
	_, function, _ := strings.Cut(rest, ", in ")
	lib := strings.Contains(file, "site-packages/") || strings.Contains(file, "dist-packages/") ||
		strings.Contains(file, "/lib/python") || strings.HasPrefix(file, "<")
	return located(file, function, lib), true
}

// phpFrame reads a line of a PHP trace, such as #0 /app/src/Orders.php(12): App\Orders->handle(Object).
func phpFrame(line string) (frame, bool) {
	end := digits(line, 1, 6)
	place, call, ok := strings.Cut(strings.TrimSpace(line[end:]), ": ")
	if end == 1 || !ok || call == "" {
		return frame{}, false
	}
	if at := strings.IndexByte(call, '('); at >= 0 {
		call = call[:at]
	}
	if at := strings.LastIndexByte(place, '('); at >= 0 {
		place = place[:at]
	}
	lib := strings.HasPrefix(place, "[internal") || strings.Contains(place, "/vendor/")
	return frame{name: stable(call), path: place, lib: lib}, call != ""
}

// rubyFrame reads a line such as /app/lib/orders.rb:12:in 'Orders#handle'.
func rubyFrame(line string) (frame, bool) {
	at := strings.Index(line, ".rb:") + len(".rb")
	if at < len(".rb") {
		return frame{}, false
	}
	_, function, _ := strings.Cut(line[at:], ":in ")
	if end := strings.Index(function, ": "); end >= 0 { // the first line of a Ruby trace also contains the error message
		function = function[:end]
	}
	if inner := strings.LastIndex(function, " in "); inner >= 0 { // removes a prefix such as "block (2 levels) in"
		function = function[inner+len(" in "):]
	}
	file := line[:at]
	lib := strings.Contains(file, "/gems/") || strings.Contains(file, "/lib/ruby/") || strings.HasPrefix(file, "<internal")
	return located(file, strings.Trim(function, "'`"), lib), true
}

// goFrame reads a frame of a Go trace: the function, and the file on the line below.
func goFrame(line, rest string) (f frame, used int, ok bool) {
	if rest == "" || rest[0] != '\t' {
		return frame{}, 0, false
	}
	file, after := nextLine(rest)
	end := strings.Index(file, ".go:")
	if end < 0 {
		return frame{}, 0, false
	}
	used = len(rest) - len(after)
	file = file[:end+len(".go")]
	name := line
	if strings.HasSuffix(name, ")") {
		if open := lastOpen(name); open > 0 {
			name = name[:open]
		}
	}
	if fn := strings.Index(name, ".func"); fn >= 0 && isDigit(at(name, fn+len(".func"))) {
		name = name[:fn+len(".func")]
	}
	lib := strings.Contains(file, "/go/src/") || strings.Contains(file, "/libexec/src/") || strings.Contains(file, "@v") ||
		strings.Contains(file, "/vendor/") || strings.HasPrefix(name, "runtime.") || name == "panic"
	return frame{name: clean(name, maxClass), path: file, lib: lib}, used, true
}

// lastOpen returns the index of the bracket that opens the arguments. The arguments and the receiver before them may
// contain brackets too.
func lastOpen(name string) int {
	depth := 0
	for i := len(name) - 1; i >= 0; i-- {
		switch name[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// rustFrame reads a line such as 3: orders::handle, and the file on the line below.
func rustFrame(line, rest string) (f frame, used int, ok bool) {
	end := digits(line, 0, 6)
	name, found := strings.CutPrefix(line[end:], ": ")
	if !found || strings.ContainsAny(name, " ") && !strings.HasPrefix(name, "<") {
		return frame{}, 0, false
	}
	if at := strings.LastIndex(name, "::h"); at > 0 && len(name)-at == 19 && allHex(name[at+3:]) {
		name = name[:at]
	}
	f = frame{name: clean(name, maxClass)}
	if file, after := nextLine(rest); strings.HasPrefix(file, "at ") {
		used = len(rest) - len(after)
		f.path = withoutPosition(file[3:])
	}
	f.lib = strings.HasPrefix(f.path, "/rustc/") || strings.Contains(f.path, "/.cargo/") || !strings.Contains(name, "::")
	return f, used, true
}

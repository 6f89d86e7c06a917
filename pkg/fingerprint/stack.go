package fingerprint

import (
	"slices"
	"strings"
)

const maxFrames = 5

// frame is one line of a stack trace of any language.
type frame struct {
	name string // text of the frame as users see it; two frames are equal when their names are
	path string // path of the source file, when name contains only the end of the path; "" otherwise
	lib  bool   // whether the path shows that the file belongs to a runtime, a library or generated code
}

// framesOf returns the application's frames of the root cause, the innermost first, at most maxFrames. If none of the
// root cause's frames is the application's, it takes those of the next outer error that has such frames.
func (m *Fingerprinter) framesOf(stack string) []string {
	if stack == "" {
		return nil
	}
	p := parser{mine: m.mine, blocks: [][]string{nil}}
	p.parse(stack)
	if !p.outward { // all languages except Python print the root cause last
		slices.Reverse(p.blocks)
	}
	for _, frames := range p.blocks {
		if len(frames) > 0 {
			return frames
		}
	}
	return nil
}

func (m *Fingerprinter) mine(f frame) bool {
	if len(m.frames) == 0 {
		return !f.lib && !isFramework(f.name)
	}
	return slices.ContainsFunc(m.frames, func(prefix string) bool {
		return strings.HasPrefix(f.name, prefix) || strings.HasPrefix(f.path, prefix) || f.path != "" && strings.Contains(f.path, "/"+prefix)
	})
}

// parser reads a stack trace into blocks, one for each error in a chain of causes.
type parser struct {
	mine    func(frame) bool
	blocks  [][]string
	current int  // index of the block to which the frames of the next lines belong
	outward bool // whether the trace lists the innermost frame of each error last and the root cause first
}

func (p *parser) parse(stack string) {
	for rest := stack; rest != ""; {
		var line string
		line, rest = nextLine(rest)
		switch {
		case line == "":
		case strings.HasPrefix(line, "Caused by: "), strings.HasPrefix(line, "---> "):
			p.open()
		case strings.HasPrefix(line, "--- End of inner exception"):
			p.current = max(0, p.current-1)
		case strings.HasPrefix(line, "Traceback (most recent call last)"):
			p.outward = true
			p.open()
		default:
			f, used, ok := readFrame(line, rest)
			if rest = rest[used:]; ok && p.mine(f) {
				p.add(f.name)
			}
		}
	}
}

func (p *parser) open() {
	p.blocks = append(p.blocks, nil)
	p.current = len(p.blocks) - 1
}

func (p *parser) add(name string) {
	block := p.blocks[p.current]
	switch {
	case p.outward:
		block = append([]string{name}, block[:min(len(block), maxFrames-1)]...)
	case len(block) < maxFrames:
		block = append(block, name)
	}
	p.blocks[p.current] = block
}

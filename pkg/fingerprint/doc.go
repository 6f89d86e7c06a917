// Package fingerprint computes the texts that failures with the same cause share: the class of the error, its message
// without the parts that differ from case to case, and the application's own stack frames. It neither counts nor stores
// error groups.
//
// Reading order:
//   - fingerprint.go: computes the fingerprint of a failure
//   - config.go: the settings, and which frames are the application's
//   - cause.go: the text of the innermost cause
//   - class.go: the class of the root cause
//   - stack.go: the application's frames of a stack trace
//   - frames.go: the frames of each language
//   - frameworks.go: packages that are not the application's
//   - title.go: the message without its variable parts
//   - lines.go: chooses the most informative line of a message
//   - token.go: a word, or a text that begins like a word
//   - address.go: addresses, names of hosts and paths
//   - clock.go: dates, times and durations
//   - number.go: numbers, units and versions
//   - code.go: codes that distinguish causes
//   - titler.go: the state while a title is computed
//   - bytes.go: classes of bytes, and texts cut to a length
package fingerprint

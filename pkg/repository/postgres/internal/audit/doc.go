// Package audit has what statements of several packages need to write to the audit trail and to recognise a change
// that the same operation has already made. Reading the trail is in package insight.
package audit

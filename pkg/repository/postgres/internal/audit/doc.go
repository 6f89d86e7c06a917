// Package audit has the SQL with which several packages write to the audit trail and find out whether the same
// operation has made a change already. Package insight reads the audit trail for users.
package audit

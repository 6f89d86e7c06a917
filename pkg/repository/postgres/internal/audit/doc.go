// Package audit contains the SQL with which several packages write to the audit trail, and with which they find out
// whether an operation has made a change already. Package insight reads the audit trail for users.
package audit

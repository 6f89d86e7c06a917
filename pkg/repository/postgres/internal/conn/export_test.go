package conn

import "context"

// RenewPlans prepares statements again if tables have grown. After the first call this happens only when a test calls
// RenewPlans.
func (d *DB) RenewPlans(ctx context.Context) {
	d.statements.mu.Lock()
	d.statements.reading = true // makes watch believe that another caller is reading
	d.statements.mu.Unlock()
	d.statements.renewNow(ctx, d.Pool)
}

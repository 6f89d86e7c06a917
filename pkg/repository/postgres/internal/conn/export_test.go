package conn

import "context"

// RenewPlans prepares statements again if tables have grown. After the first call, the store no longer does this by
// itself, so a test decides when it happens.
func (d *DB) RenewPlans(ctx context.Context) {
	d.statements.mu.Lock()
	d.statements.reading = true // the store's own check of the sizes then skips its work
	d.statements.mu.Unlock()
	d.statements.renewNow(ctx, d.Pool)
}

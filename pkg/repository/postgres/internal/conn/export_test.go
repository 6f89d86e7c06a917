package conn

import "context"

// RenewPlans prepares statements again if tables have grown, and from then on only when it is called.
func (d *DB) RenewPlans(ctx context.Context) {
	d.statements.mu.Lock()
	d.statements.reading = true // watch waits for its end
	d.statements.mu.Unlock()
	d.statements.renewNow(ctx, d.Pool)
}

package harm

import (
	"fmt"
	"math"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Excess returns why a redrive must stop because of its limits on failures and returns, or "".
func Excess(r entity.Redrive) string {
	c, o := r.Counts, r.Options
	sent := c.Sent() - r.Forgiven.Sent
	if sent < max(o.MinSample, 1) {
		return ""
	}
	for _, share := range []struct {
		what  string
		n     int
		limit float64
	}{
		{"failed", c.Failed - r.Forgiven.Failed, o.MaxFailureShare},
		{"failed again", c.Returned - r.Forgiven.Returned, o.MaxReturnShare},
	} {
		if Exceeds(share.n, sent, share.limit) {
			return fmt.Sprintf("%d of %d messages %s, more than %g %%", share.n, sent, share.what, Percent(share.limit))
		}
	}
	return ""
}

// Exceeds reports whether n of the sent messages are more than the share limit, from 0 to 1; a limit of 0 is never
// exceeded.
func Exceeds(n, sent int, limit float64) bool { return limit > 0 && float64(n) > limit*float64(sent) }

// Percent returns a share in percent, for texts.
func Percent(share float64) float64 { return math.Round(share*1e6) / 1e4 }

// Watched reports whether a redrive has limits to check while it runs.
func Watched(o entity.RedriveOptions) bool { return o.MaxFailureShare > 0 || o.MaxReturnShare > 0 }

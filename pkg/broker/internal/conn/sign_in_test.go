package conn

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// Connections are closed once when the file names another user. Connections are not closed again every second while the
// broker refuses the new user.
func TestFollower(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "username")
	cfg := SASLConfig{UsernameFile: file, Password: "p"}
	synctest.Test(t, func(t *testing.T) {
		var f follower
		for n, step := range []struct {
			file, in string
			after    time.Duration
			want     bool
		}{
			{"alice", "", userPollInterval, false}, // no sign-in yet
			{"alice", "alice", userPollInterval, false},
			{"bob", "alice", userPollInterval / 2, false},
			{"bob", "alice", userPollInterval / 2, true},
			{"bob", "alice", userPollInterval, false},
			{"", "alice", userPollInterval, false},
			{"carol", "alice", userPollInterval, true},
			{"carol", "carol", userPollInterval, false},
			{"bob", "carol", userPollInterval, true},
		} {
			check.NoError(t, os.WriteFile(file, []byte(step.file), 0o600))
			<-time.After(step.after)
			check.Equal(t, f.leave(cfg, step.in), step.want, "step %d: leave", n)
		}
	})
}

package integration_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestArchiverLeavesWhatBecameOfIt: the API's metrics contain the result of an archive run after the archiver has
// exited. When the result cannot be stored, the archiver still completes its run, and logs the error.
func TestArchiverLeavesWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.must("archiver")
	var complete int
	if err := s.db.Get(&complete, `SELECT count(*) FROM dlq.archive_runs WHERE result = 'complete' AND finished_at >= started_at`); err != nil || complete != 1 {
		t.Errorf("%d complete runs, %v, want one", complete, err)
	}
	api := s.startReady("api")
	metrics := string(api.call(http.MethodGet, "/metrics", http.StatusOK, nil))
	for _, want := range []string{"\ndlq_archive_last_success_timestamp_seconds 1.", `dlq_archive_last_run_result{result="complete"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %q", want)
		}
	}
	if _, err := s.db.Exec(`ALTER TABLE dlq.archive_runs ADD CONSTRAINT nothing CHECK (false) NOT VALID`); err != nil {
		t.Fatal(err)
	}
	out := s.must("archiver")
	for _, want := range []string{"archive run is complete", "the archive run could not be recorded"} {
		if !strings.Contains(out, want) {
			t.Errorf("the archiver did not say %q:\n%s", want, out)
		}
	}
}

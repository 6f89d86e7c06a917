package console

import (
	"strings"
	"testing"
)

func TestPagesHaveTheNameOfTheDeployment(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Name = "dead-letters-eu"
	body := get(t, siteWith(t, cfg, newAPI(t).says("GET /api/v1/topics", raw(`{"topics":[]}`))), "/topics").Body.String()
	if !strings.Contains(body, "<title>Topics · dead-letters-eu</title>") {
		t.Errorf("the title of the page lacks app.name:\n%.400s", body)
	}
}

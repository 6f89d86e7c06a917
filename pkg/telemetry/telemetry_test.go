package telemetry

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestLogger(t *testing.T) {
	t.Parallel()

	t.Run("WritesOneJSONObjectWithServiceAndVersion", func(t *testing.T) {
		t.Parallel()
		line := logged(t, LogConfig{"info", "json"}, func(l *zap.Logger) { l.Error("broken", zap.Int("n", 7)) })
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("got %q: %v", line, err)
		}
		for key, want := range map[string]any{"service": "api", "version": "1.2", "app": "dead-letters-eu", "app_version": "9.9.9", "tier": nil, "msg": "broken", "level": "error", "n": 7.0} {
			if got[key] != want {
				t.Errorf("%s: got %v, want %v", key, got[key], want)
			}
		}
		if at, _ := got["time"].(string); !strings.HasSuffix(at, "Z") || len(at) != len("2006-01-02T15:04:05.000Z") {
			t.Errorf("time: got %q, want UTC with milliseconds", at)
		}
		if _, has := got["stacktrace"]; has {
			t.Error("got a stack trace, want none")
		}
	})

	t.Run("LeavesOutLowerLevels", func(t *testing.T) {
		t.Parallel()
		line := logged(t, LogConfig{"warn", "json"}, func(l *zap.Logger) { l.Info("quiet") })
		if line != "" {
			t.Errorf("got %q, want nothing", line)
		}
	})

	t.Run("WritesPlainLinesForPeople", func(t *testing.T) {
		t.Parallel()
		line := logged(t, LogConfig{"DEBUG", "console"}, func(l *zap.Logger) { l.Debug("hello") })
		if !strings.Contains(line, "\tDEBUG\thello") {
			t.Errorf("got %q, want DEBUG hello in columns", line)
		}
	})

	t.Run("RefusesBadSettingsAllAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := NewLogger(LogConfig{Level: "loud", Format: "xml"}, "api", "1", Deployment{})
		if err == nil || !strings.Contains(err.Error(), `"loud"`) || !strings.Contains(err.Error(), `"xml"`) {
			t.Errorf("got %v, want an error naming loud and xml", err)
		}
	})

	t.Run("AcceptsItsDefaults", func(t *testing.T) {
		t.Parallel()
		if err := DefaultLogConfig().Validate(); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

var someDeployment = Deployment{Name: "dead-letters-eu", Version: "9.9.9"}

func logged(t *testing.T, cfg LogConfig, write func(*zap.Logger)) string {
	t.Helper()
	var out bytes.Buffer
	l, err := newLogger(cfg, "api", "1.2", someDeployment, zapcore.AddSync(&out))
	check.NoError(t, err)
	write(l)
	return out.String()
}

func TestRegistry(t *testing.T) {
	t.Parallel()

	answer := httptest.NewRecorder()
	promhttp.HandlerFor(NewRegistry(someDeployment), promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("got status %d, want 200", answer.Code)
	}
	for _, want := range []string{"\ngo_goroutines ", "\nprocess_start_time_seconds ", "\ngo_build_info{", "\ndlq_build_info{", `version="` + Version() + `"`, `app="dead-letters-eu"`, `app_version="9.9.9"`} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("got no %q, want it among the metrics", want)
		}
	}

	t.Run("IsNeverShared", func(t *testing.T) {
		t.Parallel()
		if a, b := NewRegistry(someDeployment), NewRegistry(someDeployment); a == b {
			t.Error("got the same registry twice, want two")
		}
	})
}

func TestBuild(t *testing.T) {
	t.Parallel()

	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name, linked string
		info         debug.BuildInfo
		want         Build
	}{
		{"PrefersTheLinker", "1.2.3", debug.BuildInfo{Main: debug.Module{Version: "v9"}}, Build{Version: "1.2.3"}},
		{"FallsBackToTheModule", "", debug.BuildInfo{Main: debug.Module{Version: "v0.4.0"}, GoVersion: "go1.26"}, Build{Version: "v0.4.0", GoVersion: "go1.26"}},
		{"IsDevOtherwise", "", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, Build{Version: "dev"}},
		{"NamesTheCommit", "1", debug.BuildInfo{Settings: vcs}, Build{Version: "1", Revision: "abc-dirty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := build(c.linked, &c.info); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

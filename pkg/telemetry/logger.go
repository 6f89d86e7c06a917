package telemetry

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogConfig holds the settings of logging.
type LogConfig struct {
	Level  string `mapstructure:"level"`  // debug, info, warn or error
	Format string `mapstructure:"format"` // json (one object per line), or console (for people)
}

// DefaultLogConfig returns settings that log level info and above as JSON.
func DefaultLogConfig() LogConfig { return LogConfig{Level: "info", Format: "json"} }

// Validate reports every invalid setting.
func (c LogConfig) Validate() error {
	var errs []error
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(c.Level)) {
		errs = append(errs, fmt.Errorf("level must be debug, info, warn or error, not %q", c.Level))
	}
	if !slices.Contains([]string{"json", "console"}, strings.ToLower(c.Format)) {
		errs = append(errs, fmt.Errorf("format must be json or console, not %q", c.Format))
	}
	return errors.Join(errs...)
}

// NewLogger returns a logger that writes to standard error. Every line contains the service, its version, the
// deployment, and the time in UTC with milliseconds. Lines contain no stack traces. No lines are dropped by sampling,
// because operators may search for any of them.
func NewLogger(cfg LogConfig, service, version string, d Deployment) (*zap.Logger, error) {
	return newLogger(cfg, service, version, d, zapcore.Lock(os.Stderr))
}

func newLogger(cfg LogConfig, service, version string, d Deployment, out zapcore.WriteSyncer) (*zap.Logger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	level, err := zapcore.ParseLevel(strings.ToLower(cfg.Level))
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	core := zapcore.NewCore(encoder(cfg.Format), out, level)
	fields := []zap.Field{zap.String("service", service), zap.String("version", version)}
	for _, part := range []struct{ key, value string }{{"app", d.Name}, {"app_version", d.Version}, {"tier", d.Tier}} {
		if part.value != "" {
			fields = append(fields, zap.String(part.key, part.value))
		}
	}
	return zap.New(core, zap.ErrorOutput(out)).With(fields...), nil
}

func encoder(format string) zapcore.Encoder {
	cfg := zap.NewProductionEncoderConfig()
	cfg.TimeKey = "time"
	cfg.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	if strings.EqualFold(format, "console") {
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		return zapcore.NewConsoleEncoder(cfg)
	}
	return zapcore.NewJSONEncoder(cfg)
}

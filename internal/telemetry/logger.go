package telemetry

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Format is the shape of log lines.
type Format int

// The formats of log lines.
const (
	// FormatJSON writes one JSON object a line, for collectors.
	FormatJSON Format = iota
	// FormatHuman writes aligned text with a short time, for a terminal.
	FormatHuman
)

// NewLogger returns a logger that writes to w, which must be safe for concurrent use of single writes (files are).
// Levels are those of zap by name ("debug", "info", "warn", "error"); an unknown one is an error that lists them.
func NewLogger(w io.Writer, level string, f Format) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log level %q is unknown: use debug, info, warn or error", level)
	}
	cfg := zap.NewProductionEncoderConfig()
	cfg.TimeKey = "time"
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	enc := zapcore.NewJSONEncoder(cfg)
	if f == FormatHuman {
		cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		cfg.ConsoleSeparator = "  "
		cfg.NameKey = ""
		enc = zapcore.NewConsoleEncoder(cfg)
	}
	core := zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), lvl)
	return zap.New(core), nil
}

// Limit returns a logger that lets at most burst lines of the same level and message through a period and drops the
// rest, so that a hostile or broken peer cannot fill the disk with log lines.
func Limit(l *zap.Logger, period time.Duration, burst int) *zap.Logger {
	return l.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, period, burst, 0)
	}))
}

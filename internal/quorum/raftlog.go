package quorum

import (
	"fmt"

	"go.uber.org/zap"
)

// raftLogger makes zap fit raft's logger. Raft reports every vote and probe at info; here these are for debugging, and
// the loop logs elections itself. Raft calls Panic when its invariants are broken, which the loop turns into an error.
type raftLogger struct{ l *zap.SugaredLogger }

func (r raftLogger) Debug(v ...any)            { r.l.Debug(v...) }
func (r raftLogger) Debugf(f string, v ...any) { r.l.Debugf(f, v...) }
func (r raftLogger) Info(v ...any)             { r.l.Debug(v...) }
func (r raftLogger) Infof(f string, v ...any)  { r.l.Debugf(f, v...) }

func (r raftLogger) Warning(v ...any)            { r.l.Warn(v...) }
func (r raftLogger) Warningf(f string, v ...any) { r.l.Warnf(f, v...) }
func (r raftLogger) Error(v ...any)              { r.l.Error(v...) }
func (r raftLogger) Errorf(f string, v ...any)   { r.l.Errorf(f, v...) }

// raftPanic marks a panic that raft asked for.
type raftPanic struct{ text string }

func (r raftLogger) Fatal(v ...any)            { panic(raftPanic{fmt.Sprint(v...)}) }
func (r raftLogger) Fatalf(f string, v ...any) { panic(raftPanic{fmt.Sprintf(f, v...)}) }
func (r raftLogger) Panic(v ...any)            { panic(raftPanic{fmt.Sprint(v...)}) }
func (r raftLogger) Panicf(f string, v ...any) { panic(raftPanic{fmt.Sprintf(f, v...)}) }

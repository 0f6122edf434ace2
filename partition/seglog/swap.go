package seglog

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kbroker/kbroker/partition/segment"
)

// completeSwaps settles what an interrupted replacement by Kafka has left, which writes no plan, by Kafka's rules: .swap files
// at or above the lowest .cleaned file are of a replacement that was not finished and go; the others take the place of all
// segments in their range.
func (l *Log) completeSwaps() error {
	f, err := l.list()
	if err != nil {
		return err
	}
	swaps, logs, unfinished := map[int64][]string{}, []int64(nil), int64(math.MaxInt64)
	for name := range f.names {
		if base, suffix, ok := parseName(name, segment.CleanedSuffix); ok && suffix != "" {
			unfinished = min(unfinished, base)
		}
		if base, suffix, ok := parseName(name, segment.SwapSuffix); ok {
			swaps[base] = append(swaps[base], suffix)
		}
		if base, suffix, ok := parseName(name, ""); ok && suffix == segment.LogSuffix {
			logs = append(logs, base)
		}
	}
	if len(swaps) == 0 {
		return nil
	}
	p := &plan{}
	for base, suffixes := range swaps {
		if base >= unfinished || !slices.Contains(suffixes, segment.LogSuffix) {
			for _, suffix := range suffixes {
				if err := l.remove(l.path(segment.FileName(base, suffix) + segment.SwapSuffix)); err != nil {
					return err
				}
			}
			continue
		}
		slices.Sort(suffixes)
		p.Install = append(p.Install, install{Base: base, Files: suffixes})
	}
	if len(p.Install) == 0 {
		return nil
	}
	slices.SortFunc(p.Install, func(a, b install) int { return int(min(1, max(-1, a.Base-b.Base))) })
	end, err := l.endOfSwaps(p.Install)
	if err != nil {
		return err
	}
	slices.Sort(logs)
	for _, base := range logs {
		if base >= p.Install[0].Base && base < end {
			p.Remove = append(p.Remove, base)
		}
	}
	_, _, err = l.carryOut(p, func() {}, func() {})
	return err
}

// endOfSwaps is the offset behind the last record of the .swap segments.
func (l *Log) endOfSwaps(list []install) (end int64, err error) {
	for _, in := range list {
		s, err := segment.OpenAs(l.o.FS, l.o.Cache, l.o.Dir, in.Base, segment.SwapSuffix)
		if err != nil {
			return 0, err
		}
		end = max(end, in.Base)
		if s.Size() > 0 {
			err = s.Headers(0, func(f segment.Found) bool { end = max(end, f.Header.LastOffset()+1); return true })
		}
		s.Retire()
		if err != nil {
			return 0, fmt.Errorf("a half-done replacement cannot be completed: %w", err)
		}
	}
	return end, nil
}

// parseName takes the name of a segment's file with the given state apart.
func parseName(name, state string) (base int64, suffix string, ok bool) {
	name, ok = strings.CutSuffix(name, state)
	digits, rest, found := strings.Cut(name, ".")
	base, err := strconv.ParseInt(digits, 10, 64)
	suffix = "." + rest
	return base, suffix, ok && found && err == nil && slices.Contains(segment.Suffixes(), suffix) && name == segment.FileName(base, suffix)
}

package groupcoord

import (
	"math"
	"unicode/utf8"
)

// javaHash is Java's String.hashCode: over the UTF-16 code units of the text, with wrap-around. A byte that is not UTF-8
// counts as U+FFFD; Java's decoder makes one of several such bytes at times, but no client sends them.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + r
			continue
		}
		r -= 0x10000
		h = 31*h + (0xd800 + r>>10)
		h = 31*h + (0xdc00 + r&0x3ff)
	}
	return h
}

// partitionFor is Kafka's choice of a partition for a group: abs(hash) % n, where the one value without a positive
// counterpart becomes 0.
func partitionFor(group string, partitions int32) int32 {
	h := javaHash(group)
	switch {
	case h == math.MinInt32:
		h = 0
	case h < 0:
		h = -h
	}
	return h % partitions
}

// utf16Len is Java's String.length.
func utf16Len(s string) int {
	n := utf8.RuneCountInString(s)
	for _, r := range s {
		if r >= 0x10000 {
			n++
		}
	}
	return n
}

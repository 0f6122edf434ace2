package producer

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const never = math.MaxInt64

// golden is a snapshot of three producers, one with an open transaction, one known by a marker only.
var golden = strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(`
	0001 9c07ba08 00000003
	0000000000000001 0000 00000006 0000000000000016 00000002 000001977420dc00 ffffffff ffffffffffffffff
	0000000000000fa1 0005 7fffffff 000000000000002b 00000000 000001977420dc0a 00000003 000000000000002a
	0000000000001388 0002 ffffffff ffffffffffffffff 00000000 000001977420dc14 00000007 ffffffffffffffff
`)

func goldenState() *State {
	var s State
	s.AppendMarker(&Marker{ProducerID: 5000, ProducerEpoch: 2, CoordinatorEpoch: 7, Commit: true, Offset: 50, Timestamp: 1750000000020})
	s.AppendMarker(&Marker{ProducerID: 4001, ProducerEpoch: 5, CoordinatorEpoch: 3, Commit: true, Offset: 30, Timestamp: 1750000000000})
	s.Append(&Batch{ProducerID: 1, BaseSequence: 2, BaseOffset: 18, LastOffset: 19, MaxTimestamp: 1749999999990})
	s.Append(&Batch{ProducerID: 1, BaseSequence: 4, BaseOffset: 20, LastOffset: 22, MaxTimestamp: 1750000000000})
	s.Append(&Batch{
		ProducerID: 4001, ProducerEpoch: 5, BaseSequence: math.MaxInt32 - 1, BaseOffset: 42, LastOffset: 42,
		MaxTimestamp: 1750000000005, Transactional: true,
	})
	s.Append(&Batch{
		ProducerID: 4001, ProducerEpoch: 5, BaseSequence: math.MaxInt32, BaseOffset: 43, LastOffset: 43,
		MaxTimestamp: 1750000000010, Transactional: true,
	})
	return &s
}

func TestSnapshotIsKafkas(t *testing.T) {
	s := goldenState()
	got := s.AppendSnapshot([]byte("kept"))
	require.Equal(t, "kept", string(got[:4]))
	require.Equal(t, golden, hex.EncodeToString(got[4:]))

	b, err := hex.DecodeString(golden)
	require.NoError(t, err)
	var loaded State
	loaded.Append(&Batch{ProducerID: 9})
	require.NoError(t, loaded.Load(b, 0, never))
	require.Equal(t, slices.Collect(s.All()), slices.Collect(loaded.All()))
	require.Equal(t, b, loaded.AppendSnapshot(nil))
	first, ok := loaded.FirstOpen()
	require.True(t, ok)
	require.Equal(t, int64(42), first)
}

func TestAnEmptySnapshot(t *testing.T) {
	var s State
	b := s.AppendSnapshot(nil)
	require.Equal(t, "000148674bc700000000", hex.EncodeToString(b))
	require.NoError(t, s.Load(b, 0, never))
	require.True(t, s.Empty())
}

// seal makes the checksum right, so that the fault behind it is found.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[checkedFrom:], castagnoli))
	return b
}

func TestCorruptionIsNamed(t *testing.T) {
	for want, damage := range map[string]func([]byte) []byte{
		"0 bytes are less than the 10 of a header":      func([]byte) []byte { return nil },
		"9 bytes are less than the 10 of a header":      func(b []byte) []byte { return b[:9] },
		"unknown version 2":                             func(b []byte) []byte { b[1] = 2; return b },
		"unknown version 0":                             func(b []byte) []byte { b[1] = 0; return b },
		"checksum 9c07ba08 stored, dee6312e computed":   func(b []byte) []byte { b[30] ^= 1; return b },
		"checksum 9c07ba09 stored, 9c07ba08 computed":   func(b []byte) []byte { b[5] ^= 1; return b },
		"3 producers of 46 bytes in 137 bytes":          func(b []byte) []byte { return seal(b[:len(b)-1]) },
		"3 producers of 46 bytes in 139 bytes":          func(b []byte) []byte { return seal(append(b, 0)) },
		"4294967295 producers of 46 bytes in 138 bytes": func(b []byte) []byte { copy(b[6:], "\xff\xff\xff\xff"); return seal(b) },
		"producer 1 appears twice":                      func(b []byte) []byte { copy(b[10+46:], b[10:10+8]); return seal(b) },
		"producer 4001 appears twice":                   func(b []byte) []byte { copy(b[10+92:], b[10+46:10+46+8]); return seal(b) },
		"2 producers of 46 bytes in 138 bytes":          func(b []byte) []byte { b[9] = 2; return seal(b) },
		"checksum 9c07ba08 stored, d8380c24 computed":   func(b []byte) []byte { return append(b, 0) },
		"checksum 00000000 stored, 9c07ba08 computed":   func(b []byte) []byte { clear(b[2:6]); return b },
		"1 bytes are less than the 10 of a header":      func(b []byte) []byte { return b[:1] },
	} {
		b, _ := hex.DecodeString(golden)
		s := goldenState()
		err := s.Load(damage(b), 0, never)
		require.ErrorIs(t, err, ErrCorrupt)
		require.EqualError(t, err, "corrupt producer snapshot: "+want)
		require.True(t, s.Empty(), "nothing half loaded remains")
	}
}

func TestNegativeTransactionsAreNone(t *testing.T) {
	b, _ := hex.DecodeString(golden)
	copy(b[10+38:], "\xff\xff\xff\xff\xff\xff\xff\xfe")
	infos, err := ParseSnapshot(seal(b))
	require.NoError(t, err)
	require.Equal(t, int64(-1), infos[0].TxnFirstOffset)
}

func FuzzSnapshot(f *testing.F) {
	b, _ := hex.DecodeString(golden)
	f.Add(b, true)
	f.Add(b, false)
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		b = slices.Clone(b)
		if sealed && len(b) >= headerSize {
			seal(b)
		}
		var s, again State
		if s.Load(b, 1000, 100) != nil {
			require.True(t, s.Empty())
			return
		}
		require.NoError(t, again.Load(s.AppendSnapshot(nil), 1000, 100))
		require.Equal(t, slices.Collect(s.All()), slices.Collect(again.All()))
		// Whatever was loaded, questions about it have answers.
		for p := range again.All() {
			batch := Batch{ProducerID: p.ProducerID, ProducerEpoch: p.Epoch, BaseSequence: 1, BaseOffset: 5, LastOffset: 9}
			_, _, _ = s.Check(&batch, Client, Verification{Required: true})
			s.Append(&batch)
			s.AppendMarker(&Marker{ProducerID: p.ProducerID, Offset: 10})
		}
		s.LastStable(5)
		checkInvariants(t, &s)
	})
}

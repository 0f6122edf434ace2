package producer

import "testing"

// BenchmarkIdempotentBatch is what a partition pays per batch of a known producer.
func BenchmarkIdempotentBatch(b *testing.B) {
	var s State
	batch := Batch{ProducerID: 1}
	b.ReportAllocs()
	for b.Loop() {
		if _, dup, err := s.Check(&batch, Client, Verification{}); dup || err != nil {
			b.Fatal(dup, err)
		}
		s.Append(&batch)
		batch.BaseOffset++
		batch.LastOffset++
		batch.BaseSequence = addSequence(batch.BaseSequence, 1)
	}
}

// BenchmarkSnapshot is one snapshot of 10,000 producers.
func BenchmarkSnapshot(b *testing.B) {
	var s State
	for id := range int64(10_000) {
		s.Append(&Batch{ProducerID: id, BaseOffset: id, LastOffset: id})
	}
	var dst []byte
	for b.Loop() {
		dst = s.AppendSnapshot(dst[:0])
	}
	b.SetBytes(int64(len(dst)))
}

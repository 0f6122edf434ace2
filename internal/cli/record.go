package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is a record as consume prints it with --format json, one to a line. Bytes that are no UTF-8 stand in the
// Base64 field in place of the text.
type jsonRecord struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp string       `json:"timestamp"`
	Key       *string      `json:"key"`
	KeyBase64 []byte       `json:"keyBase64,omitempty"`
	Value     *string      `json:"value"`
	ValBase64 []byte       `json:"valueBase64,omitempty"`
	Headers   []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key       string  `json:"key"`
	Value     *string `json:"value"`
	ValBase64 []byte  `json:"valueBase64,omitempty"`
}

// asText splits bytes into text, or bytes that are no text; both nil for null.
func asText(b []byte) (*string, []byte) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		s := string(b)
		return &s, nil
	}
	return nil, b
}

func writeRecord(w *bufio.Writer, format string, rec *kgo.Record) error {
	var err error
	switch format {
	case "json":
		err = writeRecordJSON(w, rec)
	case "text":
		_, err = w.Write(appendRecordText(nil, rec))
	default:
		if _, err = w.Write(rec.Value); err == nil {
			err = w.WriteByte('\n')
		}
	}
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func writeRecordJSON(w *bufio.Writer, rec *kgo.Record) error {
	j := jsonRecord{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Timestamp: formatTime(rec.Timestamp)}
	j.Key, j.KeyBase64 = asText(rec.Key)
	j.Value, j.ValBase64 = asText(rec.Value)
	for _, h := range rec.Headers {
		jh := jsonHeader{Key: h.Key}
		jh.Value, jh.ValBase64 = asText(h.Value)
		j.Headers = append(j.Headers, jh)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(j)
}

// appendRecordText writes topic-partition@offset, time, key, value and headers on one line.
func appendRecordText(b []byte, rec *kgo.Record) []byte {
	b = append(b, rec.Topic...)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(rec.Partition), 10)
	b = append(b, '@')
	b = strconv.AppendInt(b, rec.Offset, 10)
	b = append(b, ' ')
	b = append(b, formatTime(rec.Timestamp)...)
	if rec.Key != nil {
		b = append(b, " key="...)
		b = appendQuoted(b, rec.Key)
	}
	b = append(b, " value="...)
	b = appendQuoted(b, rec.Value)
	for _, h := range rec.Headers {
		b = append(b, ' ')
		b = append(b, h.Key...)
		b = append(b, '=')
		b = appendQuoted(b, h.Value)
	}
	return append(b, '\n')
}

// appendQuoted writes bytes so that they stay on one line and are told from null.
func appendQuoted(b, text []byte) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	return strconv.AppendQuote(b, string(text))
}

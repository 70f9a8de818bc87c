package model

import "time"

// Limits bound the answers of a model server. Zero fields have the defaults below.
type Limits struct {
	AnswerBytes int64 // of one answer on the wire. Default 16 MiB
	Calls       int   // tool calls in one answer. Default 128
	// FirstByte bounds the silence before the first byte, while a model reasons or is loaded. Default 10 min.
	FirstByte time.Duration
	// Stall bounds later silences. Default 2 min.
	Stall time.Duration
}

// WithDefaults fills in the zero fields.
func (l Limits) WithDefaults() Limits {
	if l.AnswerBytes <= 0 {
		l.AnswerBytes = 16 << 20
	}
	if l.Calls <= 0 {
		l.Calls = 128
	}
	l.FirstByte = orDefault(l.FirstByte, 10*time.Minute)
	l.Stall = orDefault(l.Stall, 2*time.Minute)
	return l
}

package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Progress keeps the progress of one request growing: first the seconds of waiting for people, then the server's own progress
// on top. Its methods return the parameters of a notification except for the token.
type Progress struct {
	IsServers bool // the server has sent progress

	sent   bool
	last   float64
	offset float64
}

// Wait returns the parameters for the time waited.
func (p *Progress) Wait(waited time.Duration, message string) []byte {
	p.sent, p.last = true, waited.Seconds()
	params := strconv.AppendFloat([]byte(`"progress":`), p.last, 'f', -1, 64)
	return rawjson.AppendString(append(params, `,"message":`...), message)
}

// Relay returns the parameters for the server's progress, offset by the time waited; nil if it is no progress. The message is limited
// to a number of characters.
func (p *Progress) Relay(raw json.RawMessage, limit int) []byte {
	var told struct {
		Progress *float64 `json:"progress"`
		Total    *float64 `json:"total"`
		Message  string   `json:"message"`
	}
	if json.Unmarshal(raw, &told) != nil || told.Progress == nil {
		return nil
	}
	if !p.IsServers && p.sent {
		p.offset = p.last
		if *told.Progress <= 0 {
			p.offset++ // else its first step would not grow
		}
	}
	value := *told.Progress + p.offset
	if p.sent && value <= p.last {
		return nil
	}
	p.sent, p.IsServers, p.last = true, true, value
	params := strconv.AppendFloat([]byte(`"progress":`), value, 'f', -1, 64)
	if told.Total != nil {
		params = strconv.AppendFloat(append(params, `,"total":`...), *told.Total+p.offset, 'f', -1, 64)
	}
	if told.Message != "" {
		params = rawjson.AppendString(append(params, `,"message":`...), plain.Visible(told.Message, limit))
	}
	return params
}

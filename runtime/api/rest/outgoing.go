package rest

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Outgoing is the exact request of a call to an HTTP API.
type Outgoing struct {
	Method  string                `json:"method"`
	URL     string                `json:"url" doc:"Secrets are masked."`
	Headers []tool.OutgoingHeader `json:"headers" nullable:"false" doc:"The value of a secret is omitted."`
	Content
}

// Content is a body.
type Content struct {
	Text  *string `json:"text" doc:"The body if it is UTF-8; otherwise null."`
	Bytes *string `json:"bytes" contentEncoding:"base64" doc:"The body in base64 if it is not UTF-8; otherwise null."`
}

// NewContent returns the text or the bytes of a body.
func NewContent(body []byte) Content {
	switch {
	case len(body) == 0:
		return Content{}
	case utf8.Valid(body):
		text := string(body)
		return Content{Text: &text}
	}
	encoded := base64.StdEncoding.EncodeToString(body)
	return Content{Bytes: &encoded}
}

// NewOutgoing returns null for no request.
func NewOutgoing(o *tool.Outgoing) *Outgoing {
	if o == nil {
		return nil
	}
	return &Outgoing{Method: o.Method, URL: o.URL, Headers: OrEmpty(o.Headers), Content: NewContent(o.Body)}
}

package wire

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/model"
)

const (
	maxRefusal = 64 << 10 // of an answer that is no success, in bytes
	maxMessage = 600      // of an error's text, in bytes
)

// Failed is why a request has no answer, whatever the libraries wrapped around it.
func Failed(ctx context.Context, err error, secret string) *model.Error {
	if ctx.Err() != nil {
		text := "the request was given up"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			text = "the request ran out of time"
		}
		return &model.Error{Message: text, Err: ctx.Err()}
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		return failed
	}
	return unreachable(err, secret)
}

// unreachable is about an exchange that did not come to its end.
func unreachable(err error, secret string) *model.Error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the address may have secrets in it
	}
	failed := &model.Error{Retryable: true, Message: Clean("the model's server cannot be reached, or broke off: "+err.Error(), secret)}
	if refused, ok := errors.AsType[*outbound.AddressError](err); ok {
		failed.Retryable, failed.Err = false, refused
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok && unknown.IsNotFound {
		failed.Retryable = false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		failed.Retryable = false
	}
	return failed
}

// Garbled is about an answer that cannot be read.
func Garbled(what, secret string) *model.Error {
	return &model.Error{Retryable: true, Message: Clean("the model's server sent what is no answer: "+what, secret)}
}

// CutOff is about a stream that ended before its answer did.
func CutOff() *model.Error {
	return &model.Error{Retryable: true, Message: "the answer broke off before its end"}
}

// TooManyCalls is about an answer with more tool calls than are taken.
func TooManyCalls(limit int) *model.Error {
	return &model.Error{Message: "the answer has more than " + strconv.Itoa(limit) + " tool calls"}
}

// refused is about an answer that is no success.
func (t *transport) refused(response *http.Response, body io.Reader) *model.Error {
	text, err := io.ReadAll(io.LimitReader(body, maxRefusal))
	if err != nil {
		text = nil // the status says enough
	}
	status := response.StatusCode
	failed := &model.Error{
		Status: status, Retryable: retryable(status, response.Header), RetryAfter: retryAfter(response.Header),
		Message: http.StatusText(status),
	}
	if status/100 == 3 {
		failed.Message = "the model's server is at another address, and redirects are not followed: set base_url"
		return failed
	}
	complaint := Explain(text, response.Header.Get("Content-Type"))
	if complaint.Message != "" {
		failed.Message = Clean(complaint.Message, t.secret)
	}
	failed.TooLong = complaint.TooLong(status)
	if complaint.unpaid() || failed.TooLong {
		failed.Retryable = false
	}
	if failed.Message == "" {
		failed.Message = "no success"
	}
	return failed
}

// retryable reports whether a status may be another one later.
func retryable(status int, header http.Header) bool {
	switch header.Get("X-Should-Retry") { // of both providers' own servers
	case "true":
		return true
	case "false":
		return false
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// retryAfter is what a server asked for: milliseconds, seconds or, by its own clock, a date (RFC 9110, 10.2.3).
func retryAfter(header http.Header) time.Duration {
	for name, unit := range map[string]time.Duration{"Retry-After-Ms": time.Millisecond, "Retry-After": time.Second} {
		const longest = 1 << 20
		if n, err := strconv.ParseFloat(header.Get(name), 64); err == nil && n > 0 && n < longest {
			return time.Duration(n * float64(unit))
		}
	}
	at, err := http.ParseTime(header.Get("Retry-After"))
	now, nowErr := http.ParseTime(header.Get("Date"))
	if err != nil || nowErr != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// Complaint is what a server says is wrong.
type Complaint struct {
	Type, Code, Message string
}

// Explain finds the complaint in the body of an answer, or in an event of a stream, as the providers and the gateways between write
// it: {"error": {"message", "type", "code"}}, {"error": "…"}, {"message"}, {"detail"}.
func Explain(text []byte, contentType string) Complaint {
	var said struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Message json.RawMessage `json:"message"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(text, &said) != nil {
		if kind, _, _ := mime.ParseMediaType(contentType); kind == "text/plain" {
			return Complaint{Message: string(text)}
		}
		return Complaint{}
	}
	complaint := Complaint{Message: word(said.Message), Type: word(said.Type), Code: word(said.Code)}
	if text := word(said.Detail); complaint.Message == "" && text != "" {
		complaint.Message = text
	}
	var inner struct {
		Message json.RawMessage `json:"message"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	switch {
	case json.Unmarshal(said.Error, &inner) == nil && said.Error != nil && string(said.Error) != "null":
		complaint = Complaint{Message: word(inner.Message), Type: word(inner.Type), Code: word(inner.Code)}
	case word(said.Error) != "":
		complaint.Message = word(said.Error)
	}
	return complaint
}

// word is a value as text: a string itself, anything else as JSON. Null is none.
func word(value json.RawMessage) string {
	var text string
	if value == nil || string(value) == "null" {
		return ""
	}
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// tooLongForm knows how servers say that a conversation is longer than the model's context.
var tooLongForm = regexp.MustCompile(`(?i)context[ _-]?(length|window|size|limit)|maximum context|prompt is too long|too many (input |prompt )?tokens|` +
	`(input|prompt|request) (is |was )?(too (long|large)|exceeds)|exceeds? (the )?(model'?s? )?(maximum|max) (input|prompt|number of tokens)|reduce the length`)

// TooLong reports whether the complaint is that the conversation is longer than the model can take.
func (c Complaint) TooLong(status int) bool {
	if c.Code == "context_length_exceeded" || c.Type == "request_too_large" || status == http.StatusRequestEntityTooLarge {
		return true
	}
	return status/100 != 5 && status != http.StatusTooManyRequests && tooLongForm.MatchString(c.Message)
}

// Mendable reports whether a complaint inside a stream may be another answer later. What nobody knows may be.
func (c Complaint) Mendable() bool {
	if code, err := strconv.Atoi(c.Code); err == nil && code/100 == 4 {
		return retryable(code, nil)
	}
	switch c.Type {
	case "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large", "BadRequestError": // the last is vLLM's
		return false
	}
	return !c.unpaid()
}

// unpaid reports whether there will be answers only when somebody has paid.
func (c Complaint) unpaid() bool {
	return c.Code == "insufficient_quota" || c.Type == "insufficient_quota" || c.Type == "billing_error"
}

// InStream is the error that a complaint inside a stream is.
func (c Complaint) InStream(secret string) *model.Error {
	text := c.Message
	if text == "" {
		text = c.Type
	}
	failed := &model.Error{Retryable: c.Mendable(), Message: Clean("the answer broke off: "+text, secret), TooLong: c.TooLong(0)}
	failed.Retryable = failed.Retryable && !failed.TooLong
	return failed
}

// Clean makes a text from outside one bounded line without the secret.
func Clean(text, secret string) string {
	const shortest = 4 // what is shorter is no secret, and everywhere
	if len(secret) >= shortest {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return plain.Line(strings.Join(strings.Fields(text), " "), maxMessage)
}

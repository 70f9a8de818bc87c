package wire

import (
	"cmp"
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
	maxRefusal = 64 << 10 // of a response whose status is not 2xx, in bytes
	maxMessage = 600      // of an error's text, in bytes
)

// explainFailure returns the error of a request without an answer.
func explainFailure(ctx context.Context, err error) *model.Error {
	if ctx.Err() != nil {
		text := "the request was canceled"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			text = "the request timed out"
		}
		return &model.Error{Message: text, Err: ctx.Err()}
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		return failed
	}
	return newUnreachableError(err)
}

// newUnreachableError returns the error of a broken connection.
func newUnreachableError(err error) *model.Error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the address may have secrets in it
	}
	failed := &model.Error{Retryable: true, Message: "the model server is unreachable, or the connection broke: " + err.Error()}
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

// InvalidAnswer returns the error of an answer that cannot be read.
func InvalidAnswer(problem string) *model.Error {
	return &model.Error{Retryable: true, Message: "the model server sent an invalid answer: " + problem}
}

// TooManyCalls returns the error of an answer with more tool calls than the limit.
func TooManyCalls(limit int) *model.Error {
	return &model.Error{Message: "the answer has more than " + strconv.Itoa(limit) + " tool calls"}
}

// readRefusal returns the error of a response whose status is not 2xx.
func readRefusal(response *http.Response, body io.Reader) *model.Error {
	text, err := io.ReadAll(io.LimitReader(body, maxRefusal))
	if err != nil {
		text = nil // the status says enough
	}
	status := response.StatusCode
	failed := &model.Error{
		Status: status, Retryable: isRetryable(status, response.Header), RetryAfter: readRetryAfter(response.Header),
		Message: http.StatusText(status),
	}
	if status/100 == 3 {
		failed.Message = "the model server redirects to another address: set base_url to that address"
		return failed
	}
	complaint := ReadComplaint(text, response.Header.Get("Content-Type"))
	if message := strings.TrimSpace(string(complaint.Message)); message != "" {
		failed.Message = message
	}
	failed.TooLong = complaint.isTooLong(status)
	if complaint.isUnpaid() || failed.TooLong {
		failed.Retryable = false
	}
	if failed.Message == "" {
		failed.Message = "the request failed"
	}
	return failed
}

// isRetryable reports whether the same request may succeed later.
func isRetryable(status int, header http.Header) bool {
	switch header.Get("X-Should-Retry") { // Anthropic and OpenAI send it
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

// readRetryAfter returns the pause that a server asks for: in milliseconds, in seconds, or until a date by its own clock (RFC 9110, section
// 10.2.3).
func readRetryAfter(header http.Header) time.Duration {
	const longest = 1 << 20
	for _, form := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if n, err := strconv.ParseFloat(header.Get(form.name), 64); err == nil && n > 0 && n < longest {
			return time.Duration(n * float64(form.unit))
		}
	}
	at, err := http.ParseTime(header.Get("Retry-After"))
	now, nowErr := http.ParseTime(header.Get("Date"))
	if err != nil || nowErr != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// Complaint is the error that a server reports.
type Complaint struct {
	Type    LooseText `json:"type"`
	Code    LooseText `json:"code"`
	Message LooseText `json:"message"`
}

// ReadComplaint reads the complaint in the body of a response or in an event of a stream. Providers and gateways write it as
// {"error": {"message", "type", "code"}}, {"error": "…"}, {"message"} or {"detail"}.
func ReadComplaint(text []byte, contentType string) Complaint {
	var said struct {
		Complaint

		Detail LooseText       `json:"detail"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &said) != nil {
		if kind, _, _ := mime.ParseMediaType(contentType); kind == "text/plain" {
			return Complaint{Message: LooseText(text)}
		}
		return Complaint{}
	}
	var inner *Complaint
	if said.Error != nil && json.Unmarshal(said.Error, &inner) == nil && inner != nil {
		return *inner
	}
	said.Message = cmp.Or(LooseText(TextOf(said.Error)), said.Message, said.Detail)
	return said.Complaint
}

// tooLongForm matches the messages of servers about conversations that are longer than the model's context.
var tooLongForm = regexp.MustCompile(`(?i)context[ _-]?(length|window|size|limit)|maximum context|prompt is too long|too many (input |prompt )?tokens|` +
	`(input|prompt|request) (is |was )?(too (long|large)|exceeds)|exceeds? (the )?(model'?s? )?(maximum|max) (input|prompt|number of tokens)|reduce the length`)

// isTooLong reports whether the conversation is longer than the model can take.
func (c Complaint) isTooLong(status int) bool {
	if c.Code == "context_length_exceeded" || c.Type == "request_too_large" || status == http.StatusRequestEntityTooLarge {
		return true
	}
	return status/100 != 5 && status != http.StatusTooManyRequests && tooLongForm.MatchString(string(c.Message))
}

// isUnpaid reports whether the server wants a payment first.
func (c Complaint) isUnpaid() bool {
	return c.Code == "insufficient_quota" || c.Type == "insufficient_quota" || c.Type == "billing_error"
}

// NewError returns the error of a complaint in place of an answer, after the status 200. An unknown complaint is retryable.
func (c Complaint) NewError() *model.Error {
	failed := &model.Error{Message: "the model server reports an error: " + string(cmp.Or(c.Message, c.Type)), TooLong: c.isTooLong(0)}
	if code, err := strconv.Atoi(string(c.Code)); err == nil && code/100 == 4 {
		failed.Retryable = isRetryable(code, nil) && !failed.TooLong
		return failed
	}
	switch c.Type {
	case "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large", "BadRequestError": // the last is vLLM's
	default:
		failed.Retryable = !c.isUnpaid() && !failed.TooLong
	}
	return failed
}

// cleanMessage returns a text from outside as one bounded line without the secret.
func cleanMessage(text, secret string) string {
	const shortest = 4 // shorter values occur by chance
	if len(secret) >= shortest {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return plain.Line(strings.Join(strings.Fields(text), " "), maxMessage)
}

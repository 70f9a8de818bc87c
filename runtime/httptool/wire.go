package httptool

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// roundTrip sends a request. It repeats it once if no byte was written.
func (x *exchange) roundTrip(s *signedAttempt) (*http.Response, *tool.Failure) {
	a, r := s.attempt, s.request
	transport := x.source.ownFor(x.server.PublicHosts, a.url.Hostname())
	if a.foreign {
		transport = x.source.foreign
	}
	if !a.crossOrigin {
		telemetry.ToHand(x.ctx).Set(r.Header)
	}
	for again := false; ; again = true {
		var wire outbound.Wire
		if confirm := x.call.Confirm; confirm != nil {
			wire.Confirm = func() error { return confirm(x.ctx) }
		}
		response, err := transport.RoundTrip(r.WithContext(wire.Observe(x.ctx)))
		if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
			// The following bytes are not HTTP, and no limit applies to them.
			_ = response.Body.Close()
			x.measured.Status = response.StatusCode
			return nil, protocolFailure(x.describeRequest()+": the server switched to another protocol (HTTP 101), which was not asked for", nil)
		}
		if err == nil {
			return response, nil
		}
		if err := wire.Refused(); err != nil {
			return nil, tool.NotConfirmed(err, x.describeRequest())
		}
		stopped := x.ctx.Err() != nil
		unwritten := wire.Untouched(stopped)
		if again || stopped || !unwritten || !wire.Connected() {
			return nil, x.noAnswerFailure(a, err, unwritten, wire.Connected())
		}
		transport.CloseIdleConnections() // forces a new connection
		header := r.Header
		r = a.newRequest()
		r.Header = header
	}
}

// noAnswerFailure returns the failure of a request without an answer.
func (x *exchange) noAnswerFailure(a *attempt, err error, unwritten, connected bool) *tool.Failure {
	effect := tool.EffectPossible
	if unwritten {
		effect = tool.EffectNone
	}
	refused, forbidden := errors.AsType[*outbound.AddressError](err)
	switch {
	case forbidden:
		return tool.BrokeOff(effect, err, "%s: %s is not called: %s", x.describeRequest(), baseOrigin(a.url), refused.Reason)
	case x.ctx.Err() != nil:
		return tool.Ended(x.ctx, effect, x.describeRequest())
	case !connected:
		return tool.BrokeOff(effect, err, "%s: connect to %s: %s", x.describeRequest(), baseOrigin(a.url), plain.Line(x.maskText(err.Error()), 300))
	case unwritten:
		return tool.BrokeOff(effect, err, "%s: the connection to %s closed before the request was sent", x.describeRequest(), baseOrigin(a.url))
	}
	return tool.BrokeOff(effect, err, "%s: the connection to %s broke before an answer came: %s", x.describeRequest(), baseOrigin(a.url), plain.Line(x.maskText(err.Error()), 300))
}

// readReply reads an answer up to the limit.
func (x *exchange) readReply(response *http.Response, a *attempt) (*reply, *tool.Failure) {
	defer func() { _ = response.Body.Close() }()
	x.measured.Status = response.StatusCode
	got := &reply{status: response.StatusCode, header: response.Header, from: a.url}
	received := &countedBody{source: response.Body}
	source, failure := x.decodeBody(received, response.Header)
	if failure != nil {
		return nil, failure
	}
	body, err := io.ReadAll(io.LimitReader(source, x.limit+1))
	x.measured.Received = received.bytes
	if got.body = body; int64(len(body)) > x.limit {
		got.body, got.cut = body[:x.limit], true
		return got, nil
	}
	switch {
	case err == nil:
		return got, nil
	case x.ctx.Err() != nil:
		failure = tool.Ended(x.ctx, tool.EffectPossible, x.describeRequest()+": the answer did not end")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zlib.ErrChecksum), strings.HasPrefix(err.Error(), "flate: "):
		failure = protocolFailure(x.describeRequest()+": the answer cannot be decompressed", err)
	default:
		failure = tool.BrokeOff(tool.EffectPossible, err, "%s: the connection to %s broke in the middle of the answer (HTTP %d): %s",
			x.describeRequest(), baseOrigin(a.url), response.StatusCode, plain.Line(x.maskText(err.Error()), 300))
	}
	failure.Raw = tool.Evidence(x.maskBytes(body))
	return nil, failure
}

// protocolFailure returns the failure of an unacceptable answer. The server may have acted before it answered.
func protocolFailure(message string, err error) *tool.Failure {
	return &tool.Failure{Kind: tool.ProtocolFailure, Effect: tool.EffectPossible, Message: message, Err: err}
}

// countedBody counts the bytes that are read.
type countedBody struct {
	source io.Reader
	bytes  int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.source.Read(p)
	c.bytes += int64(n)
	return n, err
}

// decodeBody decodes a content coding, which servers may send although the request accepts none.
func (x *exchange) decodeBody(source io.Reader, header http.Header) (io.Reader, *tool.Failure) {
	coding := strings.TrimSpace(strings.Join(header.Values("Content-Encoding"), ","))
	var open func(io.Reader) (io.Reader, error)
	switch strings.ToLower(coding) {
	case "", "identity":
		return source, nil
	case "gzip", "x-gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
	default:
		return nil, protocolFailure(fmt.Sprintf("%s: the answer has the content coding %q, which was not asked for", x.describeRequest(), plain.Line(x.maskText(coding), 60)), nil)
	}
	decoder, err := open(source)
	if errors.Is(err, io.EOF) {
		return bytes.NewReader(nil), nil // there is no body
	}
	if err != nil {
		return nil, protocolFailure(x.describeRequest()+": the answer cannot be decompressed", err)
	}
	return decoder, nil
}

// retryAfter returns the time after which a server that answered 429 or 503 accepts a retry (RFC 9110, section 10.2.3). Nil: it did not say.
func retryAfter(got *reply, now time.Time) *time.Duration {
	if got.status != http.StatusTooManyRequests && got.status != http.StatusServiceUnavailable {
		return nil
	}
	text := strings.TrimSpace(got.header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait := time.Duration(seconds) * time.Second
		return &wait
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return nil
	}
	wait := max(at.Sub(now), 0)
	return &wait
}

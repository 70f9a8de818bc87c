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

// post sends a request; once more if no byte of it had been written.
func (x *exchange) post(s *signed) (*http.Response, *tool.Failure) {
	a, r := s.attempt, s.request
	transport := x.source.ownFor(x.server.PublicHosts, a.url.Hostname())
	if a.foreign {
		transport = x.source.foreign
	}
	if !a.stranger {
		telemetry.ToHand(x.ctx).Set(r.Header)
	}
	for again := false; ; again = true {
		var wire outbound.Wire
		if confirm := x.request.Confirm; confirm != nil {
			wire.Confirm = func() error { return confirm(x.ctx) }
		}
		response, err := transport.RoundTrip(r.WithContext(wire.Observe(x.ctx)))
		if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
			// What follows is no answer, and nothing bounds it any more.
			_ = response.Body.Close()
			x.told.Status = response.StatusCode
			return nil, protocolFailure(x.what()+": the server switched to another protocol (HTTP 101), which was not asked for", nil)
		}
		if err == nil {
			return response, nil
		}
		if err := wire.Refused(); err != nil {
			return nil, tool.NotConfirmed(err, x.what())
		}
		stopped := x.ctx.Err() != nil
		untouched := wire.Untouched(stopped)
		if again || stopped || !untouched || !wire.Connected() {
			return nil, x.unanswered(a, err, untouched, wire.Connected())
		}
		transport.CloseIdleConnections() // so that it dials
		header := r.Header
		r = a.build()
		r.Header = header
	}
}

// unanswered is the failure of a request without an answer.
func (x *exchange) unanswered(a *attempt, err error, untouched, connected bool) *tool.Failure {
	effect := tool.EffectPossible
	if untouched {
		effect = tool.EffectNone
	}
	refused, forbidden := errors.AsType[*outbound.AddressError](err)
	switch {
	case forbidden:
		return tool.BrokeOff(effect, err, "%s: %s is not called: %s", x.what(), origin(a.url), refused.Reason)
	case x.ctx.Err() != nil:
		return tool.Ended(x.ctx, effect, x.what())
	case !connected:
		return tool.BrokeOff(effect, err, "%s: connect to %s: %s", x.what(), origin(a.url), plain.Line(x.hideText(err.Error()), 300))
	case untouched:
		return tool.BrokeOff(effect, err, "%s: the connection to %s closed before the request was sent", x.what(), origin(a.url))
	}
	return tool.BrokeOff(effect, err, "%s: the connection to %s broke before an answer came: %s", x.what(), origin(a.url), plain.Line(x.hideText(err.Error()), 300))
}

// read reads an answer, as far as the bound goes.
func (x *exchange) read(response *http.Response, a *attempt) (*reply, *tool.Failure) {
	defer func() { _ = response.Body.Close() }()
	x.told.Status = response.StatusCode
	got := &reply{status: response.StatusCode, header: response.Header, from: a.url}
	received := &countedBody{source: response.Body}
	source, failure := x.decode(received, response.Header)
	if failure != nil {
		return nil, failure
	}
	body, err := io.ReadAll(io.LimitReader(source, x.limit+1))
	x.told.Received = received.bytes
	if got.body = body; int64(len(body)) > x.limit {
		got.body, got.cut = body[:x.limit], true
		return got, nil
	}
	switch {
	case err == nil:
		return got, nil
	case x.ctx.Err() != nil:
		failure = tool.Ended(x.ctx, tool.EffectPossible, x.what()+": the answer did not end")
	case isCorrupt(err):
		failure = protocolFailure(x.what()+": the answer cannot be decompressed", err)
	default:
		failure = tool.BrokeOff(tool.EffectPossible, err, "%s: the connection to %s broke in the middle of the answer (HTTP %d): %s",
			x.what(), origin(a.url), response.StatusCode, plain.Line(x.hideText(err.Error()), 300))
	}
	failure.Raw = tool.Evidence(x.hideIn(body))
	return nil, failure
}

// protocolFailure is about an answer that was received: whether the server acted before it gave it, cannot be known.
func protocolFailure(message string, err error) *tool.Failure {
	return &tool.Failure{Kind: tool.ProtocolFailure, Effect: tool.EffectPossible, Message: message, Err: err}
}

// countedBody counts what is read.
type countedBody struct {
	source io.Reader
	bytes  int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.source.Read(p)
	c.bytes += int64(n)
	return n, err
}

// decode undoes a content coding, which was not asked for.
func (x *exchange) decode(source io.Reader, header http.Header) (io.Reader, *tool.Failure) {
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
		return nil, protocolFailure(fmt.Sprintf("%s: the answer has the content coding %q, which was not asked for", x.what(), plain.Line(x.hideText(coding), 60)), nil)
	}
	decoder, err := open(source)
	if errors.Is(err, io.EOF) {
		return bytes.NewReader(nil), nil // there is no body
	}
	if err != nil {
		return nil, protocolFailure(x.what()+": the answer cannot be decompressed", err)
	}
	return decoder, nil
}

func isCorrupt(err error) bool {
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zlib.ErrChecksum) || strings.HasPrefix(err.Error(), "flate: ")
}

// retryAfter is how long a server asks to be left alone (RFC 9110, section 10.2.3), which it does with 429 and 503; nil if it does not say.
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

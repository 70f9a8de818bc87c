package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
)

const (
	maxError = 200              // bytes of what went wrong
	maxAsked = 10 * time.Minute // of what a receiver may ask to wait
	rest     = time.Minute      // after a refusal
)

// unsent is the outcome of a request that no answer came to. The address, which is a credential, is left out.
func unsent(err error) outcome {
	if refusal, ok := errors.AsType[*outbound.AddressError](err); ok {
		return outcome{state: refused, err: refusal, wait: rest}
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return outcome{state: later, err: errors.New(plain.Line(err.Error(), maxError))}
}

// encode is a message as JSON, without the escapes that only HTML needs.
func encode(message any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(message)
	return text.Bytes(), err
}

// word is what a receiver may say of itself besides its status: Slack's answers are of this form.
var word = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// answered is the outcome by a receiver's answer, which is read and closed. A word in it is shown,
// unless it is a part of the address.
func (s *Service) answered(response *http.Response, address string) outcome {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64)) // the status says enough
	_ = response.Body.Close()
	status := response.StatusCode
	if status >= 200 && status < 300 {
		return outcome{state: delivered}
	}
	err := fmt.Errorf("answered HTTP %d", status)
	said := strings.TrimSpace(string(text))
	switch {
	case status >= 300 && status < 400:
		err = fmt.Errorf("answered HTTP %d, a redirect, which is not followed", status)
	case word.MatchString(said) && !strings.Contains(address, said):
		err = fmt.Errorf("answered HTTP %d: %s", status, said)
	}
	switch {
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		wait := s.retryAfter(response.Header.Get("Retry-After"))
		return outcome{state: later, err: err, wait: wait, asked: wait > 0}
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status >= 500:
		return outcome{state: later, err: err}
	}
	return outcome{state: refused, err: err, wait: rest}
}

// retryAfter reads the header of that name: seconds or a date. Zero: it says nothing.
func (s *Service) retryAfter(value string) time.Duration {
	if value == "" {
		return 0
	}
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(maxAsked.Seconds()))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(s.Now())
	} else {
		return 0
	}
	return min(max(wait, s.Gap), maxAsked)
}

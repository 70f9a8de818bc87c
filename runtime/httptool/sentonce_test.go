package httptool_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// readRequest reads one whole request of a raw connection.
func readRequest(t testing.TB, reader *bufio.Reader) bool {
	t.Helper()
	r, err := http.ReadRequest(reader)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// serveRaw starts a server that reads one request of each connection and answers with these bytes.
func serveRaw(t testing.TB, answer string) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	return listen(t, func(c net.Conn) {
		if readRequest(t, bufio.NewReader(c)) {
			requests.Add(1)
			_, _ = io.WriteString(c, answer)
		}
	}), requests
}

func writeBinding() openapi.Binding {
	return postBinding("/x", openapi.Body{Kind: openapi.BodyJSON, Media: "application/json", Fields: []openapi.Field{{Arg: "a", Name: "a"}}})
}

func TestNoConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	_ = listener.Close()
	f := failCall(t, newSource(t, httptool.Config{}), skillAt(url), newRequest(defineTool(t, writeBinding(), nil), `{"a":"private-argument"}`))
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone || !strings.Contains(f.Message, "connect to "+url) || strings.Contains(f.Message, "private-argument") {
		t.Errorf("%+v", f)
	}
	if len(f.Exchange.Steps) != 3 || f.Exchange.Status != 0 {
		t.Errorf("%+v", f.Exchange)
	}
}

// TestClosedWithoutAnswer: the server got the request and may have acted on it.
func TestClosedWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST", "DELETE"} {
		url, requests := serveRaw(t, "")
		b := writeBinding()
		if b.Method = method; method != "POST" {
			b.Body = nil
		}
		f := failCall(t, newSource(t, httptool.Config{}), skillAt(url), newRequest(defineTool(t, b, nil), `{}`))
		if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible || requests.Load() != 1 {
			t.Errorf("%s: %d requests, %+v", method, requests.Load(), f)
		}
	}
}

// TestKeptConnectionBreaks: net/http by itself resends a GET when a kept connection breaks. Here it is sent once.
func TestKeptConnectionBreaks(t *testing.T) {
	t.Parallel()
	for _, idempotencyKey := range []bool{false, true} {
		var requests atomic.Int64
		url := listen(t, func(c net.Conn) {
			reader := bufio.NewReader(c)
			for n := 0; readRequest(t, reader); n++ {
				requests.Add(1)
				if n > 0 {
					return // got the second request, and closes without an answer
				}
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
		b, arguments := getBinding("/x"), `{}`
		if idempotencyKey {
			b, arguments = getBinding("/x", newParam("Idempotency-Key", openapi.InHeader)), `{"Idempotency-Key":"k"}`
			b.Method = http.MethodPost
		}
		s := newSource(t, httptool.Config{})
		callTool(t, s, skillAt(url), b, arguments)
		f := failCall(t, s, skillAt(url), newRequest(defineTool(t, b, nil), arguments))
		if f.Effect != tool.EffectPossible || requests.Load() != 2 {
			t.Errorf("%d requests, %+v", requests.Load(), f)
		}
	}
}

// TestTimeout: a call that timed out may have been executed.
func TestTimeout(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancelCause(t.Context())
	a := newAPI(t, func(_ http.ResponseWriter, r *http.Request) {
		end(context.DeadlineExceeded)
		<-r.Context().Done()
	})
	_, err := newSource(t, httptool.Config{}).Call(ctx, skillAt(a.URL), newRequest(defineTool(t, writeBinding(), nil), `{"a":1}`))
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok || f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, "before its time ran out") {
		t.Errorf("%+v", err)
	}
	r := newRequest(defineTool(t, writeBinding(), nil), `{"a":1}`)
	r.Timeout = 20 * time.Millisecond
	if f := failCall(t, newSource(t, httptool.Config{}), skillAt(a.URL), r); !strings.Contains(f.Message, "before its time ran out") {
		t.Errorf("%+v", f)
	}
}

// TestTruncated: a truncated answer is a failure that keeps the received part.
func TestTruncated(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf of it",
		"chunked": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf of it\r\n",
		"error":   "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nhalf of it",
	} {
		url, requests := serveRaw(t, answer)
		f := failCall(t, newSource(t, httptool.Config{}), skillAt(url), newRequest(defineTool(t, writeBinding(), nil), `{}`))
		if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible || string(f.Raw) != `"half of it"` || requests.Load() != 1 || f.Exchange.Status == 0 || f.Exchange.Received != 10 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	url, _ := serveRaw(t, "HTTP/1.1 20")
	if f := failCall(t, newSource(t, httptool.Config{}), skillAt(url), newRequest(defineTool(t, writeBinding(), nil), `{}`)); f.Effect != tool.EffectPossible {
		t.Errorf("half a status line: %+v", f)
	}
	url, _ = serveRaw(t, "SSH-2.0-OpenSSH_9.9\r\n")
	if f := failCall(t, newSource(t, httptool.Config{}), skillAt(url), newRequest(defineTool(t, writeBinding(), nil), `{}`)); f.Effect != tool.EffectPossible {
		t.Errorf("no HTTP: %+v", f)
	}
}

// TestUntilClosed: an answer without a length ends with the connection.
func TestUntilClosed(t *testing.T) {
	t.Parallel()
	url, _ := serveRaw(t, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it")
	if r := callTool(t, newSource(t, httptool.Config{}), skillAt(url), getBinding("/x"), `{}`); r.text() != "all of it" {
		t.Errorf("%s", r.Raw)
	}
}

// TestEndless: the size limit ends an endless answer, the timeout a slow one.
func TestEndless(t *testing.T) {
	t.Parallel()
	var media atomic.Value
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := media.Load().(string)
		w.Header().Set("Content-Type", text)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("ü", 1000)); err != nil {
				return
			}
		}
	})
	s := newSource(t, httptool.Config{Limits: httptool.Limits{ResultBytes: 10_001}})
	media.Store("text/plain")
	r := callTool(t, s, skillAt(a.URL), getBinding("/x"), `{}`)
	if r.IsError || len(r.Content) != 2 || r.Content[0].Text != strings.Repeat("ü", 5000) || !strings.Contains(r.Content[1].Text, "longer than 10001 bytes") {
		t.Errorf("%d elements, %d bytes", len(r.Content), len(r.Raw))
	}
	media.Store("application/json")
	if r := callTool(t, s, skillAt(a.URL), getBinding("/x"), `{}`); r.IsError || r.StructuredContent != nil {
		t.Errorf("%.100s", r.Raw)
	}
	f := failCall(t, s, skillAt(a.URL), newRequest(defineTool(t, getBinding("/x"), map[string]any{"outputSchema": map[string]any{"type": "object"}}), `{}`))
	if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || len(f.Raw) == 0 {
		t.Errorf("%+v", f)
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "beginning")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	t.Cleanup(func() { close(release) })
	r := newRequest(defineTool(t, writeBinding(), nil), `{}`)
	r.Timeout = 3 * time.Second // the answer starts long before that
	f := failCall(t, newSource(t, httptool.Config{}), skillAt(a.URL), r)
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectPossible || string(f.Raw) != `"beginning"` {
		t.Errorf("%+v", f)
	}
}

// TestServerErrors: a call with a status of 500 or more may have been executed.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	for status, effect := range map[int]tool.Effect{404: "", 409: "", 429: "", 500: tool.EffectPossible, 503: tool.EffectPossible} {
		for _, method := range []string{"GET", "POST"} {
			a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{ "message": "it is so" }`)
			})
			b := getBinding("/x")
			b.Method = method
			r := callTool(t, newSource(t, httptool.Config{}), skillAt(a.URL), b, `{}`)
			want := fmt.Sprintf(`Upstream API returned %d: {"message":"it is so"}`, status)
			if effect != "" {
				want += "\nIt may have been executed: do not repeat it blindly."
			}
			if !r.IsError || r.Effect != effect || r.text() != want || r.StructuredContent != nil || r.Exchange.Status != status || len(a.requests()) != 1 {
				t.Errorf("%s: %+v", r.text(), r.Result)
			}
		}
	}
}

// TestRetryAfter: the result has the time of Retry-After, and nothing is resent.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	seconds := func(n int) *time.Duration {
		d := time.Duration(n) * time.Second
		return &d
	}
	for _, test := range []struct {
		status int
		after  string
		want   *time.Duration
	}{
		{429, "0", seconds(0)},
		{429, "7", seconds(7)},
		{503, "3600", seconds(3600)},
		{429, now.Add(-time.Hour).Format(http.TimeFormat), seconds(0)},
		{503, now.Add(time.Minute).Format(http.TimeFormat), seconds(60)},
		{429, "", nil},
		{429, "soon", nil},
		{429, "-1", nil},
		{500, "0", nil},
		{404, "0", nil},
		{200, "0", nil},
	} {
		a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			if test.after != "" {
				w.Header().Set("Retry-After", test.after)
			}
			w.WriteHeader(test.status)
		})
		config := httptool.Config{Now: func() time.Time { return now }}
		got, err := newSource(t, config).Call(t.Context(), skillAt(a.URL), newRequest(defineTool(t, writeBinding(), nil), `{"a":1}`))
		if err != nil || len(a.requests()) != 1 || (got.RetryAfter == nil) != (test.want == nil) || got.RetryAfter != nil && *got.RetryAfter != *test.want {
			t.Errorf("%d, Retry-After %q: %d requests, %v, %v, want %v", test.status, test.after, len(a.requests()), got.RetryAfter, err, test.want)
		}
	}
}

// TestNotAskedFor: an answer that is compressed without a request for it is read, within the limit.
func TestNotAskedFor(t *testing.T) {
	t.Parallel()
	zip := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.Bytes()
	}
	var coding, body atomic.Value
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _ := coding.Load().(string)
		b, _ := body.Load().([]byte)
		w.Header().Set("Content-Encoding", c)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b)
	})
	s := newSource(t, httptool.Config{Limits: httptool.Limits{ResultBytes: 1 << 20}})
	coding.Store("gzip")
	body.Store(zip("hello"))
	if r := callTool(t, s, skillAt(a.URL), getBinding("/x"), `{}`); r.text() != "hello" {
		t.Errorf("%s", r.Raw)
	}
	body.Store(zip(strings.Repeat("\x20", 200<<20)))
	if r := callTool(t, s, skillAt(a.URL), getBinding("/x"), `{}`); len(r.Raw) > 2<<20 || !strings.Contains(r.text(), "longer than") {
		t.Errorf("%d bytes", len(r.Raw))
	}
	body.Store(zip("hello")[:12])
	if f := failCall(t, s, skillAt(a.URL), newRequest(defineTool(t, getBinding("/x"), nil), `{}`)); f.Effect != tool.EffectPossible {
		t.Errorf("%+v", f)
	}
	body.Store([]byte("no gzip"))
	if f := failCall(t, s, skillAt(a.URL), newRequest(defineTool(t, getBinding("/x"), nil), `{}`)); f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible {
		t.Errorf("%+v", f)
	}
	coding.Store("br")
	if f := failCall(t, s, skillAt(a.URL), newRequest(defineTool(t, getBinding("/x"), nil), `{}`)); f.Kind != tool.ProtocolFailure || !strings.Contains(f.Message, `"br"`) {
		t.Errorf("%+v", f)
	}
}

// TestConcurrentCalls: concurrent calls of several skills do not mix.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	s := newSource(t, httptool.Config{})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			server := skillAt(a.URL)
			server.AuthSecret, server.API = fmt.Sprintf("secret-%d", i), &tool.API{Auth: &tool.APIAuth{Type: tool.APIBearer}}
			for range 8 {
				if r := callTool(t, s, server, writeBinding(), fmt.Sprintf(`{"a":%d}`, i)); r.IsError {
					t.Errorf("%s", r.Raw)
				}
			}
		})
	}
	all.Wait()
	for _, r := range a.requests() {
		if want := "Bearer secret-" + strings.Trim(r.body, `{"a:}`); r.header.Get("Authorization") != want {
			t.Errorf("%s with %s", r.body, r.header.Get("Authorization"))
		}
	}
}

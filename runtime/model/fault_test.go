package model_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/runtime/model"
)

var whole = modelserver.Answer{Text: "I look at the clock.", Calls: []modelserver.Call{{Name: "clock", Arguments: `{"zone":"UTC"}`}}}

func failWhole(f modelserver.Fault) modelserver.Answer {
	a := whole
	a.Fault = f
	return a
}

// Errors that may be temporary are retried after the server's delay, or after the schedule's.
func TestRetriedErrors(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		for what, c := range map[string]struct {
			fault modelserver.Fault
			slept time.Duration
		}{
			"429 with a time":     {modelserver.Fault{Status: 429, RetryAfter: "7"}, 7 * time.Second},
			"429 with a fraction": {modelserver.Fault{Status: 429, RetryAfter: "2.5"}, 2500 * time.Millisecond},
			"429 for too long":    {modelserver.Fault{Status: 429, RetryAfter: "86400"}, time.Minute},
			"429 without a time":  {modelserver.Fault{Status: 429}, 2 * time.Second},
			"408":                 {modelserver.Fault{Status: 408}, 2 * time.Second},
			"409":                 {modelserver.Fault{Status: 409}, 2 * time.Second},
			"500":                 {modelserver.Fault{Status: 500, RetryAfter: "soon"}, 2 * time.Second},
			"503":                 {modelserver.Fault{Status: 503, RetryAfter: "-3"}, 2 * time.Second},
			"529":                 {modelserver.Fault{Status: modelserver.StatusOverloaded}, 2 * time.Second},
		} {
			w := newWorld(t, format, modelserver.Sequence(failWhole(c.fault), whole))
			answer, h := w.mustAsk(newRequest("Time?"))
			if len(callsOf(answer)) != 1 || h.restarts != 0 || !slices.Equal(w.slept, []time.Duration{c.slept}) {
				t.Errorf("%s: %+v, slept %v", what, answer, w.slept)
			}
		}
	})
}

// A stream that breaks at any event is requested again, and its text is withdrawn.
func TestBrokenStreams(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		for _, kind := range []modelserver.Fault{{Cut: true}, {Error: true}} {
			restarted := 0
			for after := 0; ; after++ {
				kind.After = after
				w := newWorld(t, format, modelserver.Sequence(failWhole(kind), whole))
				answer, h := w.mustAsk(newRequest("Time?"))
				if textOf(answer) != whole.Text || len(callsOf(answer)) != 1 || callsOf(answer)[0].Arguments != `{"zone":"UTC"}` {
					t.Errorf("%+v: %+v", kind, answer)
				}
				restarted += h.restarts
				if len(w.server.Requests()) == 1 { // it broke after the model's stop, or not at all
					if after < 8 {
						t.Errorf("%+v: not asked again", kind)
					}
					break
				}
			}
			if restarted == 0 {
				t.Errorf("%+v: nothing was withdrawn", kind)
			}
		}
	})
}

// Permanent errors are not retried.
func TestFinalErrors(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		for what, c := range map[string]struct {
			fault   modelserver.Fault
			tooLong bool
			gist    string
		}{
			"bad request":       {modelserver.Fault{Status: 400, Message: "temperature\n is \u202eodd " + key}, false, `temperature is \u202eodd ***`},
			"unknown key":       {modelserver.Fault{Status: 401, Message: "Incorrect API key provided: " + key}, false, "provided: ***"},
			"no model":          {modelserver.Fault{Status: 404, Message: "The model m1 does not exist"}, false, "m1"},
			"not done":          {modelserver.Fault{Status: 501}, false, "Not Implemented"},
			"a long text":       {modelserver.Fault{Status: 400, Message: strings.Repeat("long ", 10_000)}, false, "…"},
			"nothing paid":      {modelserver.Fault{Status: 429, Code: "insufficient_quota", Type: "insufficient_quota", Message: "You exceeded your current quota"}, false, "quota"},
			"too long, OpenAI":  {modelserver.Fault{Status: 400, Code: "context_length_exceeded", Message: "This model's maximum context length is 128000 tokens."}, true, "128000"},
			"too long, vLLM":    {modelserver.Fault{Status: 400, Message: "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens. Please reduce the length of the messages."}, true, "4096"},
			"too long, llama":   {modelserver.Fault{Status: 400, Message: "the request exceeds the available context size"}, true, "context size"},
			"too long":          {modelserver.Fault{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, true, "210000"},
			"too long, answer":  {modelserver.Fault{Status: 400, Message: "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}, true, "context limit"},
			"too large":         {modelserver.Fault{Status: 413, Message: "Request exceeds the maximum size"}, true, "maximum size"},
			"invalid in stream": {modelserver.Fault{Error: true, Type: "invalid_request_error", Message: "odd " + key}, false, "odd ***"},
			"long in stream":    {modelserver.Fault{Error: true, Message: "maximum context length is 4096"}, true, "4096"},
		} {
			w := newWorld(t, format, modelserver.Sequence(failWhole(c.fault)))
			_, _, err := w.ask(newRequest("Time?"))
			if err == nil || err.Retryable || err.TooLong != c.tooLong || err.Status != c.fault.Status || !strings.Contains(err.Message, c.gist) || len(w.slept) > 0 {
				t.Errorf("%s: %#v, slept %v", what, err, w.slept)
			}
		}
	})
}

func TestGivenUp(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		w := newWorld(t, format, func(*modelserver.Request) modelserver.Answer {
			return failWhole(modelserver.Fault{Status: 503, Message: "no " + key + " today"})
		})
		_, _, err := w.ask(newRequest("Time?"))
		if err == nil || err.Status != 503 || !strings.Contains(err.Message, "no *** today (6 attempts)") || len(w.server.Requests()) != 6 {
			t.Errorf("%v after %d requests", err, len(w.server.Requests()))
		}
		if !slices.Equal(w.slept, toSeconds(2, 4, 8, 16, 30)) {
			t.Errorf("slept %v", w.slept)
		}
		if log := w.log.String(); strings.Count(log, "model request failed") != 5 || strings.Contains(log, key) {
			t.Errorf("logged %s", log)
		}
	})
}

func toSeconds(list ...int) []time.Duration {
	var all []time.Duration
	for _, n := range list {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}

// Invalid answers of other kinds of servers are errors.
func TestOtherServers(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		date := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for what, c := range map[string]struct {
			answer    func(w http.ResponseWriter)
			retryable bool
			after     time.Duration
			gist      string
		}{
			"a page":           {writePage(200, "text/html", "<html>Hello</html>"), true, 0, "ended before"},
			"an error page":    {writePage(502, "text/html", "<html>Bad Gateway "+key+"</html>"), true, 0, "Bad Gateway"},
			"an error text":    {writePage(400, "text/plain", "what is\n"+key+"?"), false, 0, "what is ***?"},
			"an error word":    {writePage(400, "application/json", `{"error":"model 'x' not found"}`), false, 0, "model 'x' not found"},
			"a detail":         {writePage(422, "application/json", `{"detail":[{"loc":["body"],"msg":"field required"}]}`), false, 0, "field required"},
			"a message":        {writePage(400, "application/json", `{"message":"no","code":7}`), false, 0, "no"},
			"an empty error":   {writePage(418, "application/json", ``), false, 0, "teapot"},
			"an odd status":    {writePage(599, "application/json", `null`), true, 0, "request failed"},
			"no JSON":          {writePage(200, "application/json", `{"id":`), true, 0, "invalid answer"},
			"other JSON":       {writePage(200, "application/json", `{"hello":"world"}`), true, 0, "invalid answer"},
			"an error in JSON": {writePage(200, "application/json", `{"type":"error","error":{"type":"authentication_error","message":"who? `+key+`"}}`), false, 0, "who? ***"},
			"no event":         {writePage(200, "text/event-stream", "data: {\"id\": \n\n"), true, 0, "invalid answer"},
			"an odd event":     {writePage(200, "text/event-stream", "event: x\ndata: [1]\n\n"), true, 0, ""},
			"nothing":          {writePage(200, "text/event-stream", ""), true, 0, "ended before"},
			"a redirect": {func(w http.ResponseWriter) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(http.StatusTemporaryRedirect)
			}, false, 0, "redirects"},
			"a date": {func(w http.ResponseWriter) {
				w.Header().Set("Date", date.Format(http.TimeFormat))
				w.Header().Set("Retry-After", date.Add(9*time.Second).Format(http.TimeFormat))
				w.WriteHeader(http.StatusServiceUnavailable)
			}, true, 9 * time.Second, "Unavailable"},
			"milliseconds": {func(w http.ResponseWriter) {
				w.Header().Set("Retry-After-Ms", "40")
				w.WriteHeader(http.StatusTooManyRequests)
			}, true, 40 * time.Millisecond, ""},
			"do not repeat": {func(w http.ResponseWriter) {
				w.Header().Set("X-Should-Retry", "false")
				w.WriteHeader(http.StatusInternalServerError)
			}, false, 0, ""},
			"do repeat": {func(w http.ResponseWriter) {
				w.Header().Set("X-Should-Retry", "true")
				w.WriteHeader(http.StatusBadRequest)
			}, true, 0, ""},
		} {
			requests := 0
			w := newWorld(t, format, nil, func(w *world) {
				w.handler = http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
					requests++
					c.answer(out)
				})
			})
			_, _, err := w.ask(newRequest("Time?"))
			if err == nil || err.Retryable != c.retryable || err.RetryAfter != c.after || !strings.Contains(err.Message, c.gist) {
				t.Errorf("%s: %#v", what, err)
			}
			if want := map[bool]int{true: 6, false: 1}[c.retryable]; requests != want {
				t.Errorf("%s: %d requests", what, requests)
			}
		}
	})
}

func writePage(status int, kind, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

// A context that ends in the middle of a stream ends the exchange.
func TestCancelled(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		for what, late := range map[string]bool{"cancelled": false, "out of time": true} {
			answer := whole
			answer.Before = func(server context.Context, event int) {
				if event == 6 {
					<-server.Done() // until the client disconnects, for which the server waits
				}
			}
			w := newWorld(t, format, modelserver.Sequence(answer))
			ctx, cancel := context.WithCancel(t.Context())
			want, hear := context.Canceled, func(model.Delta) { cancel() }
			if late {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				want, hear = context.DeadlineExceeded, nil
			}
			_, err := w.provider.Generate(ctx, newRequest("Time?"), hear)
			failed, ok := errors.AsType[*model.Error](err)
			if !ok || !errors.Is(err, want) || failed.Retryable || len(w.slept) > 0 {
				t.Errorf("%s: %#v", what, err)
			}
			cancel()
		}
	})
}

func TestSilence(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		for event, limits := range map[int]model.Limits{
			1: {FirstByte: 200 * time.Millisecond, Stall: time.Minute}, 5: {FirstByte: time.Minute, Stall: 200 * time.Millisecond},
		} {
			silent := whole
			silent.Before = func(server context.Context, n int) {
				if n == event {
					<-server.Done()
				}
			}
			w := newWorld(t, format, func(r *modelserver.Request) modelserver.Answer {
				if r.Number == 1 {
					return silent
				}
				return whole
			}, func(w *world) { w.limits = limits })
			if response, _ := w.mustAsk(newRequest("Time?")); textOf(response) != whole.Text || !strings.Contains(w.log.String(), "sent nothing for 200ms") {
				t.Errorf("event %d: %s", event, w.log.String())
			}
		}
	})
}

func TestBounds(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		for _, streamed := range []bool{true, false} {
			long := modelserver.Answer{Text: strings.Repeat("word ", 2000), Whole: !streamed}
			w := newWorld(t, format, modelserver.Sequence(long), func(w *world) { w.limits.AnswerBytes = 4096 })
			if _, _, err := w.ask(newRequest("Go.")); err == nil || err.Retryable || !strings.Contains(err.Message, "exceeds 4096 bytes") {
				t.Errorf("a long answer: %#v", err)
			}
			many := modelserver.Answer{Whole: !streamed}
			for i := range 4 {
				many.Calls = append(many.Calls, modelserver.Call{ID: "c" + strconv.Itoa(i), Name: "clock"})
			}
			w = newWorld(t, format, modelserver.Sequence(many, many), func(w *world) { w.limits.Calls = 3 })
			if _, _, err := w.ask(newRequest("Go.")); err == nil || err.Retryable || !strings.Contains(err.Message, "more than 3 tool calls") {
				t.Errorf("many calls: %#v", err)
			}
		}
	})
}

// An unreachable server is retried, but not a forbidden address or an invalid name.
func TestUnreachable(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		w := newWorld(t, format, nil)
		for url, again := range map[string]int{gone.URL: 5, "http://nobody.invalid": 0} {
			w.slept = nil
			w.provider = w.newProvider(url+"/"+key, key)
			if _, _, err := w.ask(newRequest("Go.")); err == nil || err.Status != 0 || len(w.slept) != again {
				t.Errorf("%s: %#v, slept %v", url, err, w.slept)
			}
		}
		w.slept = nil
		w.client = outbound.NewClient(outbound.Config{Policy: outbound.Policy{AllowPrivate: true}})
		w.provider = w.newProvider("http://169.254.169.254", key)
		if _, _, err := w.ask(newRequest("Go.")); err == nil || !errors.Is(err, outbound.ErrForbidden) || len(w.slept) != 0 {
			t.Errorf("%#v, slept %v", err, w.slept)
		}
	})
}

// A credential is sent only to its server, and nothing from the environment is sent. Not parallel, because it sets the
// environment.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI", "ANTHROPIC"} {
		for _, suffix := range []string{"_API_KEY", "_BASE_URL", "_AUTH_TOKEN", "_ORG_ID", "_PROJECT_ID", "_CUSTOM_HEADERS", "_PROFILE"} {
			t.Setenv(name+suffix, "X-Leak: from-the-environment")
		}
	}
	for _, format := range formats {
		w := newWorld(t, format, modelserver.Sequence(whole), func(w *world) { w.server.Key = "" })
		w.provider = w.newProvider(w.url, "")
		w.mustAsk(newRequest("Go."))
		for name, values := range w.server.Requests()[0].Header {
			if slices.Contains([]string{"Authorization", "X-Api-Key"}, name) || strings.Contains(strings.Join(values, ""), "environment") {
				t.Errorf("%s: %s: %q", format, name, values)
			}
		}
	}
}

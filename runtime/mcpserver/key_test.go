package mcpserver_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdpoint/holdpoint/runtime/call"
)

const keyedTool = `{"name":"keyed","inputSchema":{"type":"object","properties":{"idempotency_key":{}}}}`

func TestIdempotencyKey(t *testing.T) {
	for name, c := range map[string]struct{ tool, arguments, meta, key, sent string }{
		"in _meta":                   {"echo", `{"a":1}`, `"k"`, "k", `{"a":1}`},
		"first":                      {"echo", `{"idempotency_key":"k","a":1}`, ``, "k", `{"a":1}`},
		"last":                       {"echo", `{"a":{"idempotency_key":"x"}, "idempotency_key" : "k"}`, ``, "k", `{"a":{"idempotency_key":"x"}}`},
		"amid":                       {"echo", `{"a":1e400,"idempotency_key":"k","b":-0}`, ``, "k", `{"a":1e400,"b":-0}`},
		"by another name":            {"echo", `{"a":"\u0041","idempotency\u005fkey":"k"}`, ``, "k", `{"a":"\u0041"}`},
		"alone":                      {"echo", `{"idempotency_key":"k"}`, ``, "k", `{}`},
		"both":                       {"echo", `{"idempotency_key":"k"}`, `"k"`, "k", `{}`},
		"that the tool knows":        {"keyed", `{"idempotency_key":"k"}`, ``, "k", `{"idempotency_key":"k"}`},
		"that is the tool's own":     {"keyed", `{"idempotency_key":7}`, ``, "", `{"idempotency_key":7}`},
		"deeper than the first rank": {"echo", `{"a":{"idempotency_key":"k"}}`, ``, "", `{"a":{"idempotency_key":"k"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(t *testing.T) {
				b := newBench(t)
				b.agents.catalog = newCatalog(t, echoTool, keyedTool)
				body := callBody("1", c.tool, c.arguments)
				if c.meta != "" {
					body = strings.Replace(body, `"params":{`, `"params":{"_meta":{"dev.holdpoint/idempotency_key":`+c.meta+`},`, 1)
				}
				a := b.post(body)
				synctest.Wait()
				if len(b.calls.submitted) != 1 {
					t.Fatal(a.body)
				}
				if sub := b.calls.submitted[0]; sub.IdempotencyKey != c.key || string(sub.Arguments) != c.sent {
					t.Errorf("key %q, sent %s", sub.IdempotencyKey, sub.Arguments)
				}
				if got := b.calls.deliveries(); (len(got) == 1) != (c.key != "") {
					t.Errorf("delivered %v", got)
				}
			})
		})
	}
}

func TestBadIdempotencyKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, body := range []string{
		callBody("1", "echo", `{"idempotency_key":7}`), callBody("1", "echo", `{"idempotency_key":""}`),
		callBody("1", "echo", `{"idempotency_key":"\u0000"}`),
		callBody("1", "echo", `{"idempotency_key":"`+strings.Repeat("x", 256)+`"}`),
		strings.Replace(callBody("1", "echo", `{"idempotency_key":"a"}`), `"params":{`, `"params":{"_meta":{"dev.holdpoint/idempotency_key":"b"},`, 1),
		strings.Replace(callBody("1", "echo", `{}`), `"params":{`, `"params":{"_meta":{"dev.holdpoint/idempotency_key":7},`, 1),
	} {
		v := decodeJSON(t, b.post(body).body)
		message, _ := memberAt(v, "error", "message").(string)
		if memberAt(v, "error", "code") != -32602.0 || !strings.Contains(message, "idempotency_key") {
			t.Errorf("%s: %v", body, v)
		}
	}
	b.calls.submitErr = call.ErrKeyReused
	v := decodeJSON(t, b.post(callBody("1", "echo", `{"idempotency_key":"k"}`)).body)
	if memberAt(v, "error", "code") != -32602.0 || memberAt(v, "error", "data", "code") != "idempotency_key_reused" {
		t.Errorf("a reused key: %v", v)
	}
}

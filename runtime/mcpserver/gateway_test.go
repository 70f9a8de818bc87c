package mcpserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// asProxy asks about a request over HTTP, as a proxy with the key of billing.
func (b *bench) asProxy(method, body string, headers ...string) answer {
	b.t.Helper()
	r := b.newRequest(context.Background(), body, append([]string{"X-Agent-API-Key", "key-billing", "Authorization", ""}, headers...)...)
	r.Method, r.URL.Path = method, "/ext-authz/laptop/mcp"
	return b.sendRequest(r)
}

const proxiedCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"ls"}}}`

// TestProxiesPassOnlyWhatIsClear: a request in which a server might read another call than Holdpoint passes never, though everything is approved.
func TestProxiesPassOnlyWhatIsClear(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.passage = call.Passage{ID: uuid.New(), Allowed: true}
	if a := b.asProxy(http.MethodPost, proxiedCall); a.status != http.StatusOK || len(b.calls.asked) != 1 {
		t.Fatalf("%d %s, asked about %d calls", a.status, a.body, len(b.calls.asked))
	}
	change := func(old, replacement string) string { return strings.Replace(proxiedCall, old, replacement, 1) }
	for why, body := range map[string]string{
		"a batch":                   "[" + proxiedCall + "]",
		"an empty batch":            "[]",
		"two messages":              proxiedCall + proxiedCall,
		"no JSON":                   "name=Bash",
		"half a message":            proxiedCall[:60],
		"nothing":                   "",
		"null":                      "null",
		"two methods":               change(`"method"`, `"method":"ping","method"`),
		"an escaped second method":  change(`"method"`, `"m\u0065thod":"ping","method"`),
		"a method in another case":  change(`"method":"tools/call"`, `"method":"ping","Method":"tools/call"`),
		"a method with a long s":    change(`"params"`, `"paramſ":{"name":"purge"},"params"`),
		"a tool in another case":    change(`"name"`, `"NAME":"purge","name"`),
		"two tools":                 change(`"name"`, `"name":"purge","name"`),
		"arguments in another case": change(`"arguments"`, `"Arguments":{},"arguments"`),
		"two arguments":             change(`"command"`, `"command":"rm","command"`),
		"a value of another case":   change("tools/call", "Tools/Call"),
		"a value with a space":      change("tools/call", " tools/call"),
		"no id":                     change(`"id":1,`, ""),
		"no tool":                   change(`"name":"Bash",`, ""),
		"bytes that are no UTF-8":   change("ls", "l\xff"),
		"half a surrogate":          change("ls", `\ud800`),
		"a byte order mark":         "\uFEFF" + proxiedCall,
		"a deep value":              change(`"ls"`, strings.Repeat("[", 20000)+strings.Repeat("]", 20000)),
		"a large body":              change("ls", strings.Repeat("x", 5<<20)),
	} {
		if a := b.asProxy(http.MethodPost, body); a.status < 400 {
			t.Errorf("%s: %d %s", why, a.status, a.body)
		}
	}
	for why, headers := range map[string][]string{
		"a partial body":       {"X-Envoy-Auth-Partial-Body", "true"},
		"a compressed body":    {"Content-Encoding", "gzip"},
		"another encoding":     {"Content-Type", "application/json; charset=utf-7"},
		"another type":         {"Content-Type", "text/plain"},
		"another method":       {"Mcp-Method", "tools/list"},
		"the key of a person":  {"X-Agent-API-Key", "token-ann"},
		"an unknown key":       {"X-Agent-API-Key", "key"},
		"a user is missing":    {"holdpoint-subject-header", "X-User"},
		"a user that is large": {"holdpoint-subject-header", "X-User", "X-User", strings.Repeat("x", 300)},
	} {
		if a := b.asProxy(http.MethodPost, proxiedCall, headers...); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", why, a.status, a.body)
		}
	}
	if a := b.asProxy(http.MethodGet, proxiedCall, "Mcp-Method", "ping"); a.status != http.StatusForbidden {
		t.Errorf("a GET with a body: %d", a.status)
	}
	if n := len(b.calls.asked); n != 1 {
		t.Errorf("asked about %d calls", n)
	}
	for _, name := range []string{"Content-Type", "X-Forwarded-Method", "X-Original-Method"} { // of proxies that ask without body and method
		if a := b.asProxy(http.MethodGet, "", "Content-Type", "", name, "POST"); a.status != http.StatusForbidden {
			t.Errorf("a GET with %s: %d", name, a.status)
		}
	}
	if a := b.asProxy(http.MethodGet, "", "Content-Type", ""); a.status != http.StatusOK {
		t.Errorf("a stream: %d %s", a.status, a.body)
	}
}

// TestProxiesNameOneUser: of two users or keys one may be the client's, so neither counts.
func TestProxiesNameOneUser(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.passage = call.Passage{ID: uuid.New(), Allowed: true}
	for _, c := range []struct {
		name, second string
		want         int
	}{
		{"X-User", "", http.StatusOK},
		{"X-User", "ann", http.StatusForbidden},
		{"X-Agent-API-Key", "key-billing", http.StatusForbidden},
	} {
		r := b.newRequest(t.Context(), proxiedCall, "Authorization", "", "X-Agent-API-Key", "key-billing", "holdpoint-subject-header", "X-User", "X-User", "bob")
		r.URL.Path = "/ext-authz/laptop/mcp"
		if c.second != "" {
			r.Header.Add(c.name, c.second)
		}
		if a := b.sendRequest(r); a.status != c.want {
			t.Errorf("%s %q: %d %s", c.name, c.second, a.status, a.body)
		}
	}
}

// TestProxiesAreKnownBeforeTheBody: the body of a gateway that is not authenticated is not read, and so not found too large.
func TestProxiesAreKnownBeforeTheBody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.asProxy(http.MethodPost, strings.Repeat("x", 5<<20), "X-Agent-API-Key", "key")
	if a.status != http.StatusForbidden || !strings.Contains(a.body, "not authenticated") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestProxiesAreRefusedAtFaults: whatever goes wrong, the answer refuses.
func TestProxiesAreRefusedAtFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for why, fault := range map[string]func(){
		"no decision": func() { b.calls.passage = call.Passage{} },
		"pending":     func() { b.calls.passage = call.Passage{Pending: true} },
		"an error": func() {
			b.calls.passage, b.calls.err = call.Passage{Allowed: true}, errors.New("secret of the database")
		},
		"a panic": func() { b.calls.waitEnds = func(context.Context) { panic("broken") } },
	} {
		b.calls.err, b.calls.waitEnds = nil, nil
		fault()
		if a := b.asProxy(http.MethodPost, proxiedCall); a.status != http.StatusForbidden || strings.Contains(a.body, "secret") || strings.Contains(a.body, "broken") {
			t.Errorf("%s: %d %s", why, a.status, a.body)
		}
	}
}

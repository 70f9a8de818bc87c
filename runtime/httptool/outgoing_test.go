package httptool_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maskSecrets masks the tests' secrets in a received request as Outgoing does.
func maskSecrets(s string) string {
	return strings.NewReplacer("K%26y%20secret", "•••", "session-secret", "•••", "other-secret", "•••").Replace(s)
}

// compareOutgoing makes a call and compares the received request with Outgoing.
func compareOutgoing(t testing.TB, a *api, s *httptool.Source, server tool.Server, r tool.CallRequest) {
	t.Helper()
	before := len(a.requests())
	told, err := s.Outgoing(server, r)
	if err != nil {
		t.Fatalf("%s: outgoing: %v", r.Arguments, err)
	}
	again, err := s.Outgoing(server, r)
	if err != nil {
		t.Fatal(err)
	}
	if first, second := encodeJSON(t, told), encodeJSON(t, again); first != second {
		t.Fatalf("Outgoing returned %s, then %s", first, second)
	}
	result, err := s.Call(t.Context(), server, r)
	if err != nil {
		t.Fatalf("%s: call: %v", r.Arguments, err)
	}
	all := a.requests()
	if len(all) != before+1 {
		t.Fatalf("%s: sent %d times: %s", r.Arguments, len(all)-before, result.Raw)
	}
	got := all[before]
	if got.method != told.Method || maskSecrets(a.URL+got.uri) != told.URL || got.body != string(told.Body) {
		t.Errorf("%s: told %s %s %q,\nsent %s %s %q", r.Arguments, told.Method, told.URL, told.Body, got.method, a.URL+got.uri, got.body)
	}
	left := maps.Clone(map[string][]string(got.header))
	for _, name := range []string{"User-Agent", "Content-Length"} { // the transport adds them
		delete(left, name)
	}
	for _, h := range told.Headers {
		values := left[h.Name]
		delete(left, h.Name)
		switch {
		case len(values) != 1:
			t.Errorf("%s: header %s was told, and sent as %q", r.Arguments, h.Name, values)
		case h.Secret && h.Value != "", !h.Secret && maskSecrets(values[0]) != h.Value:
			t.Errorf("%s: header %s was told as %q, and sent as %q", r.Arguments, h.Name, h.Value, values[0])
		}
	}
	if len(left) > 0 {
		t.Errorf("%s: sent, and not told: %v", r.Arguments, left)
	}
}

func encodeJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bindEverything returns a binding with parameters in all places.
func bindEverything(body openapi.Body) openapi.Binding {
	styled := func(name, in, style string, explode bool) openapi.Param {
		return openapi.Param{Arg: name, Name: name, In: in, Style: style, Explode: explode}
	}
	return postBinding("/a/{id}/{m}.json?fixed=1", body,
		newParam("id", openapi.InPath), styled("m", "path", "matrix", true), newParam("q", openapi.InQuery),
		styled("deep", "query", "deepObject", true), styled("pipe", "query", "pipeDelimited", false),
		openapi.Param{Arg: "free", Name: "free", In: "query", Style: "form", AllowReserved: true}, newParam("X-Note", openapi.InHeader), newParam("track", openapi.InCookie))
}

func newSecretive(base string) tool.Server {
	server := skillAt(base)
	server.Headers = map[string]string{"X-Org": "other-secret", "Cookie": "sid=session-secret"}
	server.API = &tool.API{Auth: &tool.APIAuth{Type: tool.APIKey, In: "query", Name: "key"}}
	server.AuthSecret = "K&y secret"
	return server
}

// TestOutgoingIsWhatIsSent: for random arguments, the server receives the request of Outgoing, except for the secrets.
func TestOutgoingIsWhatIsSent(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil)
	s := newSource(t, httptool.Config{})
	fields := []openapi.Field{{Arg: "f", Name: "f"}, {Arg: "g", Name: "g\"\r\n"}, {Arg: "h", Name: "h", Style: openapi.StyleForm, Explode: true}}
	kinds := []openapi.Body{
		{Kind: openapi.BodyJSON, Media: "application/json", Fields: fields},
		{Kind: openapi.BodyForm, Fields: fields},
		{Kind: openapi.BodyMultipart, Fields: fields},
		{Kind: openapi.BodyText, Media: "text/plain", Arg: "f"},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		kind := kinds[i%len(kinds)]
		arguments := map[string]any{"id": "x" + randomWord(random), "m": []string{randomWord(random) + "1", "2"}}
		for _, name := range []string{"q", "free", "track", "f", "g", "h"} {
			if kind.Arg != "" && name > "f" && name < "i" {
				continue
			}
			if random.IntN(4) > 0 {
				arguments[name] = randomWord(random)
			}
		}
		if random.IntN(2) == 0 {
			arguments["q"], arguments["deep"], arguments["pipe"] = []any{randomWord(random), 1}, map[string]any{randomWord(random): randomWord(random)}, []string{randomWord(random), "b"}
		}
		if random.IntN(2) == 0 {
			arguments["X-Note"] = fmt.Sprintf("note %d; a=b, c", i)
		}
		r := newRequest(defineTool(t, bindEverything(kind), nil), encodeJSON(t, arguments))
		r.Caller.Headers = map[string]string{"X-Agent": "sales", "X-Call": r.CallID.String()}
		compareOutgoing(t, a, s, newSecretive(a.URL+"/base/"), r)
	}
}

// randomWord returns text that is hard to encode.
func randomWord(random *rand.Rand) string {
	const hard = "abc /\\?#&=%;,+\"'<>{}[]|^`~!@$()*:.\r\n\t\x00\u00e9\u202e\U0001F600-_"
	letters := []rune(hard)
	text := make([]rune, random.IntN(12))
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return strings.ReplaceAll(string(text), "..", "") + "z"
}

func TestOutgoingTellsNoSecret(t *testing.T) {
	t.Parallel()
	s := newSource(t, httptool.Config{})
	server := newSecretive("http://user:pass-secret@127.0.0.1:1/base")
	server.Headers["Host"] = "inner.example"
	r := newRequest(defineTool(t, bindEverything(openapi.Body{Kind: openapi.BodyJSON}), nil), `{"id":1,"m":2,"track":"t"}`)
	told, err := s.Outgoing(server, r)
	if err != nil {
		t.Fatal(err)
	}
	if text := encodeJSON(t, told); strings.Contains(text, "-secret") || strings.Contains(text, "user") || strings.Contains(text, "K&y") {
		t.Errorf("%s", text)
	}
	if told.URL != "http://127.0.0.1:1/base/a/1/;m=2.json?fixed=1&key=•••" {
		t.Errorf("%q", told.URL)
	}
	want := []tool.OutgoingHeader{
		{Name: "Host", Secret: true},
		{Name: "Accept", Value: "*/*"},
		{Name: "Authorization", Secret: true},
		{Name: "Cookie", Value: "track=t; sid=•••"},
		{Name: "X-Org", Secret: true},
	}
	if !slices.Equal(told.Headers, want) {
		t.Errorf("%+v", told.Headers)
	}
}

func TestOutgoingOfWrongArguments(t *testing.T) {
	t.Parallel()
	_, err := newSource(t, httptool.Config{}).Outgoing(skillAt("http://127.0.0.1:1"), newRequest(defineTool(t, getBinding("/x/{id}", newParam("id", openapi.InPath)), nil), `{"id":".."}`))
	if err == nil || !strings.Contains(err.Error(), `argument "id"`) {
		t.Error(err)
	}
}

// FuzzOutgoing: arguments are refused, or the request is below the base URL and equals Outgoing.
func FuzzOutgoing(f *testing.F) {
	for _, id := range []string{"1", "..", "a/../b", "%2e%2e%2f", "a?b#c", "\r\nX: y", "..;/x", "{other}"} {
		f.Add(id, id, id)
	}
	a := newAPI(f, nil)
	s := httptool.New(httptool.Config{})
	defer s.Close()
	b := getBinding("/a/{id}", newParam("id", openapi.InPath), newParam("q", openapi.InQuery), newParam("X-Note", openapi.InHeader))
	f.Fuzz(func(t *testing.T, id, q, note string) {
		arguments := encodeJSON(t, map[string]any{"id": id, "q": q, "X-Note": note})
		r := newRequest(defineTool(t, b, nil), arguments)
		told, err := s.Outgoing(skillAt(a.URL+"/base"), r)
		if err != nil {
			if !strings.Contains(err.Error(), "argument ") {
				t.Errorf("%s: %v", arguments, err)
			}
			return
		}
		if !strings.HasPrefix(told.URL, a.URL+"/base/a/") || told.Method != http.MethodGet {
			t.Errorf("%s: %s", arguments, told.URL)
		}
		compareOutgoing(t, a, s, skillAt(a.URL+"/base"), r)
	})
}

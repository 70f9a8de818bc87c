package cli_test

import (
	"strings"
	"testing"
)

const connectionText = `{"id":"k1","skill":"ledger","person":{"id":"p1","name":"vera\u202e"},"state":"needs_connection","need":"consent",` +
	`"reason":"nobody has connected this skill yet","who_can_resolve":"vera\u202e","waiting_calls":2}`

func TestConnections(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for text, want := range map[string][]string{
		connectionText: {"k1", "ledger", "vera<U+202E>", "needs_connection", "2 calls", "nobody has connected this skill yet; for vera<U+202E>"},
		`{"id":"k2","skill":"mail","person":null,"state":"failing","error":"token: HTTP 500","who_can_resolve":"an operator"}`: {"(shared)", "token: HTTP 500; for an operator"},
		`{"id":"k3","skill":"mail","person":null,"state":"expired","expires_at":"2026-01-02T03:04:05Z","renewable":false}`:     {"expired", "2026-01-0"},
	} {
		body := `{"items":[` + text + `],"next_cursor":"more"}`
		f.setAnswer("GET /api/v1/connections", body)
		got := f.run("connections", "list", "--skill", "ledger").wantCode(t, 0)
		wantContains(t, "list", got.stdout, want...)
		wantContains(t, "list", got.stderr, "--cursor more")
		if got := f.run("connections", "list", "--json").wantCode(t, 0); got.stdout != body+"\n" {
			t.Errorf("--json: %s", got.stdout)
		}
	}
	wantContains(t, "requests", strings.Join(f.asked, "\n"), "GET /api/v1/connections?limit=50&skill=ledger")
	f.setAnswer("POST /api/v1/connections/k1/disconnect", connectionText)
	if got := f.run("connections", "disconnect", "k1").wantCode(t, 0); got.stdout != "Disconnected.\n" {
		t.Errorf("got %+v", got)
	}
	f.run("connections", "disconnect", "k2").wantCode(t, 1)
}

func TestConnect(t *testing.T) {
	t.Parallel()
	const text = `{"authorization_url":"https://as.example/authorize?scope=a+b&state=x"}`
	f := newFake(t).setAnswer("POST /api/v1/skills/ledger/connect", text).setProblem("POST /api/v1/skills/mail/connect", 409,
		`{"status":409,"code":"connection_needed","detail":"choose one of the authorization servers: https://a.example"}`)
	got := f.run("connections", "connect", "ledger").wantCode(t, 0)
	if got.stdout != "https://as.example/authorize?scope=a+b&state=x\n" || f.getLastBody() != `{}` {
		t.Errorf("got %+v, sent %s", got, f.getLastBody())
	}
	wantContains(t, "stderr", got.stderr, "browser", "signed in", f.URL)
	if got := f.run("connections", "connect", "ledger", "--issuer", "https://as.example", "--json").wantCode(t, 0); got.stdout != text+"\n" {
		t.Errorf("got %+v", got)
	}
	if f.getLastBody() != `{"issuer":"https://as.example"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	wantContains(t, "stderr", f.run("connections", "connect", "mail").wantCode(t, 1).stderr, "https://a.example (connection_needed)")
	f.run("connections", "connect").wantCode(t, 1)
}

func TestPeopleCommands(t *testing.T) {
	t.Parallel()
	const person = `{"id":"p1","name":"vera","issuer":"https://idp.example","subject":"v","email":"v@example","created_at":"2026-01-02T03:04:05Z",` +
		`"link":{"same_as":{"id":"p2","name":"ve\u202era"},"by":"olga","at":"2026-01-02T03:04:05Z"}}`
	f := newFake(t).setAnswer("GET /api/v1/people", `{"items":[`+person+`],"next_cursor":null}`).setAnswer("POST /api/v1/people/p1/link", person)
	wantContains(t, "list", f.run("people", "list").wantCode(t, 0).stdout, "p1", "https://idp.example", "v@example", "ve<U+202E>ra (p2)")
	got := f.run("people", "link", "p1", "--same-as", "p2").wantCode(t, 0)
	if got.stdout != "vera is the same as ve<U+202E>ra (p2).\n" || f.getLastBody() != `{"same_as":"p2"}` {
		t.Errorf("got %+v, sent %s", got, f.getLastBody())
	}
	f.run("people", "link", "p1").wantCode(t, 1)
	if got := f.run("people", "unlink", "p1").wantCode(t, 0); got.stdout != "Unlinked.\n" {
		t.Errorf("got %+v", got)
	}
	if last := f.asked[len(f.asked)-1]; last != "DELETE /api/v1/people/p1/link" {
		t.Errorf("asked %s", last)
	}
}

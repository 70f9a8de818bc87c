package ui_test

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestLinkSignsInOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := w.createLink("ana", identity.Reviewer)
	for range 3 { // previews and prefetchers
		if a := w.visitor().get(link); a.status != http.StatusOK || a.find("sign-in-link").Length() != 1 {
			t.Fatalf("%d %s", a.status, a.text())
		}
	}
	v, other := w.visitor(), w.visitor()
	form := v.get(link + "&next=/calls%3Fstatus%3Dfailed").form("sign-in")
	a := v.post("/sign-in", form)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/calls?status=failed" {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
	cookie := a.header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "holdpoint=") || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") ||
		!strings.Contains(cookie, "Path=/;") || strings.Contains(cookie, "Secure") {
		t.Errorf("cookie %q", cookie)
	}
	if v.get("/").find("person").Length() != 1 {
		t.Error("the visitor is not signed in")
	}
	again := other.post("/sign-in", form)
	if again.status != http.StatusUnauthorized || !strings.Contains(again.text(), "was used or has expired") || again.find("token").Length() != 1 {
		t.Errorf("used again: %d %s", again.status, again.text())
	}
	if a := v.post("/sign-in", form); a.status != http.StatusUnauthorized || !strings.Contains(a.find("signed-in").Text(), "You are signed in as ana.") ||
		a.find("token").Length() != 1 {
		t.Errorf("used again in the same browser: %d %s", a.status, a.text())
	}
	if again.find("signed-in").Length() != 0 {
		t.Error("another browser is told who it is signed in as")
	}
	if v.get("/sign-in?next=/calls").header.Get("Location") != "/calls" {
		t.Error("who is signed in is asked again")
	}
}

func TestSecretOfALinkIsNoTokenButSignsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, secret, _ := strings.Cut(w.createLink("ana", identity.Reviewer), "token=")
	v := w.visitor()
	if a := v.post("/sign-in", url.Values{"token": {secret + "\n"}}); a.status != http.StatusSeeOther || v.get("/").find("person").Length() != 1 {
		t.Errorf("%d %s", a.status, a.text())
	}
	if a := w.visitor().post("/sign-in", url.Values{"token": {secret}}); a.status != http.StatusUnauthorized || !strings.Contains(a.text(), "This link was used") {
		t.Errorf("used again: %d %s", a.status, a.text())
	}
}

func TestTokenSignsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, token, err := w.people.CreateToken(t.Context(), uuid.Nil, "bob", []identity.Role{identity.Operator}, nil)
	check(t, err)
	v := w.visitor()
	for _, wrong := range []string{"", "x", token + "x", strings.Repeat("y", 5000)} {
		if a := v.post("/sign-in", url.Values{"token": {wrong}, "next": {"/calls"}}); a.status != http.StatusUnauthorized ||
			a.form("sign-in").Get("next") != "/calls" || strings.Contains(a.body, "value=\""+token) {
			t.Errorf("token %q: %d", wrong, a.status)
		}
	}
	if a := v.post("/sign-in", url.Values{"token": {token}}); a.status != http.StatusSeeOther || a.header.Get("Location") != "/" {
		t.Fatalf("%d %s", a.status, a.text())
	}
	if person := v.get("/").find("person").Text(); !strings.Contains(person, "bob") || !strings.Contains(person, "operator") {
		t.Errorf("signed in as %q", person)
	}
	if v.post("/sign-out", nil).header.Get("Location") != "/sign-in" || v.get("/").status != http.StatusSeeOther {
		t.Error("signing out does not end the session")
	}
}

func TestSessionTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.visitor()
	server, err := url.Parse(w.server.URL)
	check(t, err)
	v.client.Jar.SetCookies(server, []*http.Cookie{{Name: "holdpoint", Value: "chosen-by-an-attacker"}})
	v.post("/sign-in", v.get(w.createLink("ana", identity.Reviewer)).form("sign-in"))
	value := v.client.Jar.Cookies(server)[0].Value
	if value == "chosen-by-an-attacker" {
		t.Error("the session has a token from before it began")
	}
	var stored string
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT token FROM sessions`).Scan(&stored))
	if stored == value || stored == "" {
		t.Errorf("the session's token %q is stored as %q", value, stored)
	}
	w.db.Exec(`UPDATE sessions SET data = data, expiry = now() - interval '1 minute'`)
	if v.get("/").status != http.StatusSeeOther {
		t.Error("an expired session is valid")
	}
	w.signedIn("bob", identity.Reviewer)
	var sessions int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM sessions`).Scan(&sessions))
	if sessions != 1 {
		t.Errorf("%d sessions are stored, want only the valid one", sessions)
	}
}

func TestSessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, token, err := w.people.CreateToken(t.Context(), uuid.Nil, "bob", []identity.Role{identity.Reviewer}, nil)
	check(t, err)
	v := w.visitor()
	if a := v.post("/sign-in", url.Values{"token": {token}}); a.status != http.StatusSeeOther {
		t.Fatalf("%d", a.status)
	}
	check(t, w.people.RevokeToken(t.Context(), uuid.Nil, id))
	w.people.Invalidate() // as the notice of a change does in each process
	if a := v.get("/"); a.status != http.StatusSeeOther {
		t.Errorf("after its token was revoked the session gets %d", a.status)
	}
}

func TestSessionEndsWithItsPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	w.signedIn("olga", identity.Operator)
	blocked := true
	_, err := w.people.ChangeMember(t.Context(), audit.System(), w.findPerson("ana").ID, identity.MemberChange{Blocked: &blocked})
	check(t, err)
	if a := v.get("/"); a.status != http.StatusSeeOther {
		t.Errorf("%d", a.status)
	}
}

func TestSecureCookieOnHTTPS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startDashboard(slog.New(slog.DiscardHandler), "https://holdpoint.example")
	v := w.visitor()
	a := v.post("/sign-in", v.get(w.createLink("ana", identity.Reviewer)).form("sign-in"))
	cookie := a.header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-holdpoint=") || !strings.Contains(cookie, "; Secure") || strings.Contains(cookie, "Domain") {
		t.Errorf("cookie %q", cookie)
	}
}

func TestOnlyLocalPathsAreGoneBackTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, next := range []string{
		"https://evil.example", "//evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "javascript:alert(1)",
		"/%2f/../\\evil.example", "evil.example", "///evil.example", "/sign-in?next=/sign-in", "/sign-out", "http:evil.example", "/ /evil",
	} {
		form := w.visitor().get("/sign-in?next=" + url.QueryEscape(next)).form("sign-in")
		if got := form.Get("next"); got != "/" {
			t.Errorf("next %q becomes %q", next, got)
		}
		v := w.visitor()
		a := v.post("/sign-in", url.Values{"link": {strings.TrimPrefix(w.createLink("ana", identity.Reviewer), "/sign-in?token=")}, "next": {next}})
		if a.header.Get("Location") != "/" {
			t.Errorf("next %q leads to %q", next, a.header.Get("Location"))
		}
	}
	for _, next := range []string{"/", "/calls?status=failed&before=x", "/calls/a%2Fb", "/calls/x?view=json"} {
		if got := w.visitor().get("/sign-in?next=" + url.QueryEscape(next)).form("sign-in").Get("next"); got != next {
			t.Errorf("next %q becomes %q", next, got)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a := w.visitor().get("/events"); a.status != http.StatusUnauthorized {
		t.Errorf("signed out: %d", a.status)
	}
	v := w.signedIn("ana", identity.Reviewer)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	response, err := v.client.Do(v.request(http.MethodGet, "/events", "").WithContext(ctx))
	check(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", want, lines.Err())
	}
	expect(`"pending":0`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"x"}`)
	expect(`"pending":1`)
	w.ui.Close()
	for lines.Scan() {
		continue
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end when the dashboard closed: %v", err)
	}
}

// findPerson finds a person by name.
func (w *world) findPerson(name string) identity.Member {
	w.t.Helper()
	found, _, err := w.people.Members(w.t.Context(), identity.MemberFilter{Text: name})
	check(w.t, err)
	if len(found) != 1 {
		w.t.Fatalf("%d people are called %s", len(found), name)
	}
	return found[0]
}

package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vera := w.token("vera", identity.Reviewer)
	id := w.personID(vera)
	path := "people/" + id.String()
	has(t, "at first", w.get(path, w.operator).want(t, 200), `{"name":"vera","granted_roles":[],"claimed_roles":[],"tokens":1,"sessions":0,"blocked_at":null}`)
	change := func(body string) map[string]any {
		t.Helper()
		return w.send("PATCH", "/api/v1/"+path, w.operator, body).want(t, 200)
	}
	has(t, "granted", change(`{"granted_roles":["operator"],"granted_teams":["b","a"]}`), `{"granted_roles":["operator"],"granted_teams":["a","b"]}`)
	has(t, "changed in part", change(`{"granted_roles":[]}`), `{"granted_roles":[],"granted_teams":["a","b"]}`)
	w.send("PATCH", "/api/v1/"+path, w.operator, `{"granted_roles":["reviewer"],"was":{"granted_roles":["operator"],"granted_teams":["a","b"]}}`).problem(t, 409, "state_conflict")
	has(t, "as it was", change(`{"granted_teams":["c"],"was":{"granted_roles":[],"granted_teams":["b","a"]}}`), `{"granted_roles":[],"granted_teams":["c"]}`)
	for body, location := range map[string]string{
		`{"granted_roles":["root"]}`: "body.granted_roles", `{"granted_teams":["a\nb"]}`: "body.granted_teams", `{"roles":[]}`: "body.roles",
	} {
		got := w.send("PATCH", "/api/v1/"+path, w.operator, body)
		if got.problem(t, 422, "invalid_request"); !strings.Contains(got.body, location) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	if change(`{"blocked":true}`)["blocked_at"] == nil {
		t.Error("not blocked")
	}
	w.get("approvals", vera).problem(t, 401, "unauthenticated")
	has(t, "unblocked", change(`{"blocked":false}`), `{"blocked_at":null}`)
	w.get("approvals", vera).want(t, 200)
	own := "/api/v1/people/" + w.personID(w.operator).String()
	w.send("PATCH", own, w.operator, `{"blocked":true}`).problem(t, 409, "state_conflict")
	w.send("PATCH", "/api/v1/people/"+uuid.NewString(), w.operator, `{}`).problem(t, 404, "not_found")
	w.get("people/"+uuid.NewString(), w.operator).problem(t, 404, "not_found")
	if found := items(t, w.get("people?text=VER", w.operator).want(t, 200)); len(found) != 1 {
		t.Errorf("found %v", found)
	}
	w.get("people?text=%00", w.operator).problem(t, 422, "invalid_request")
}

func TestSessionsOfMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token("vera", identity.Reviewer)
	access, err := w.people.Authenticate(t.Context(), token)
	check(t, err)
	begin := func() identity.Session {
		t.Helper()
		s, err := w.people.BeginSession(t.Context(), access, identity.NewSession{Client: "Firefox", Lifetime: time.Hour})
		check(t, err)
		return s
	}
	first := begin()
	begin()
	path := "people/" + access.Person.ID.String()
	found := items(t, w.get(path+"/sessions", w.operator).want(t, 200))
	if len(found) != 2 {
		t.Fatalf("sessions %v", found)
	}
	last, _ := found[1].(map[string]any)
	has(t, "session", last, fmt.Sprintf(`{"id":%q,"method":"token","client":"Firefox"}`, first.ID))
	w.send("DELETE", "/api/v1/people/"+w.personID(w.operator).String()+"/sessions/"+first.ID.String(), w.operator, "").problem(t, 404, "not_found")
	w.send("DELETE", "/api/v1/"+path+"/sessions/"+first.ID.String(), w.operator, "").want(t, 204)
	w.send("DELETE", "/api/v1/"+path+"/sessions/x", w.operator, "").problem(t, 404, "not_found")
	has(t, "ended", w.post(path+"/sign-out", w.operator, "").want(t, 200), `{"ended":1}`)
	w.post("people/"+uuid.NewString()+"/sign-out", w.operator, "").problem(t, 404, "not_found")
	w.get("people/"+uuid.NewString()+"/sessions", w.operator).problem(t, 404, "not_found")
	w.get("approvals", token).want(t, 200) // the token is another matter
}

func TestTokenForSomebodyKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.personID(w.token("vera", identity.Reviewer))
	made := w.post("tokens", w.operator, fmt.Sprintf(`{"person_id":%q,"roles":["operator"]}`, id)).want(t, 201)
	if made["person"] != "vera" || w.personID(fmt.Sprint(made["key"])) != id {
		t.Errorf("made %v", made)
	}
	for _, body := range []string{
		`{"roles":["operator"]}`, `{"person":"vera","person_id":"` + id.String() + `","roles":["operator"]}`,
		`{"person_id":"` + uuid.NewString() + `","roles":["operator"]}`, `{"person_id":"x","roles":["operator"]}`,
	} {
		w.post("tokens", w.operator, body).problem(t, 422, "invalid_request")
	}
}

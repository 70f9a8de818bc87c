package api_test

import (
	"encoding/json"
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
	vera := w.createToken("vera", identity.Reviewer)
	id := w.personID(vera)
	path := "people/" + id.String()
	wantFields(t, "at first", w.get(path, w.operator).wantStatus(t, 200), `{"name":"vera","granted_roles":[],"claimed_roles":[],"tokens":1,"sessions":0,"blocked_at":null}`)
	change := func(body string) map[string]any {
		t.Helper()
		return w.send("PATCH", "/api/v1/"+path, w.operator, body).wantStatus(t, 200)
	}
	wantFields(t, "granted", change(`{"granted_roles":["operator"],"granted_teams":["b","a"]}`), `{"granted_roles":["operator"],"granted_teams":["a","b"]}`)
	wantFields(t, "changed in part", change(`{"granted_roles":[]}`), `{"granted_roles":[],"granted_teams":["a","b"]}`)
	w.send("PATCH", "/api/v1/"+path, w.operator, `{"granted_roles":["reviewer"],"was":{"granted_roles":["operator"],"granted_teams":["a","b"]}}`).wantProblem(t, 409, "state_conflict")
	wantFields(t, "as it was", change(`{"granted_teams":["c"],"was":{"granted_roles":[],"granted_teams":["b","a"]}}`), `{"granted_roles":[],"granted_teams":["c"]}`)
	for body, location := range map[string]string{
		`{"granted_roles":["root"]}`: "body.granted_roles", `{"granted_teams":["a\nb"]}`: "body.granted_teams", `{"roles":[]}`: "body.roles",
	} {
		got := w.send("PATCH", "/api/v1/"+path, w.operator, body)
		if got.wantProblem(t, 422, "invalid_request"); !strings.Contains(got.body, location) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	if change(`{"blocked":true}`)["blocked_at"] == nil {
		t.Error("not blocked")
	}
	w.get("approvals", vera).wantProblem(t, 401, "unauthenticated")
	wantFields(t, "unblocked", change(`{"blocked":false}`), `{"blocked_at":null}`)
	w.get("approvals", vera).wantStatus(t, 200)
	own := "/api/v1/people/" + w.personID(w.operator).String()
	w.send("PATCH", own, w.operator, `{"blocked":true}`).wantProblem(t, 409, "state_conflict")
	w.send("PATCH", "/api/v1/people/"+uuid.NewString(), w.operator, `{}`).wantProblem(t, 404, "not_found")
	w.get("people/"+uuid.NewString(), w.operator).wantProblem(t, 404, "not_found")
	if found := listItems(t, w.get("people?text=VER", w.operator).wantStatus(t, 200)); len(found) != 1 {
		t.Errorf("found %v", found)
	}
	w.get("people?text=%00", w.operator).wantProblem(t, 422, "invalid_request")
}

func TestSessionsOfMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.createToken("vera", identity.Reviewer)
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
	found := listItems(t, w.get(path+"/sessions", w.operator).wantStatus(t, 200))
	if len(found) != 2 {
		t.Fatalf("sessions %v", found)
	}
	last, _ := found[1].(map[string]any)
	wantFields(t, "session", last, fmt.Sprintf(`{"id":%q,"method":"token","client":"Firefox"}`, first.ID))
	w.send("DELETE", "/api/v1/people/"+w.personID(w.operator).String()+"/sessions/"+first.ID.String(), w.operator, "").wantProblem(t, 404, "not_found")
	w.send("DELETE", "/api/v1/"+path+"/sessions/"+first.ID.String(), w.operator, "").wantStatus(t, 204)
	w.send("DELETE", "/api/v1/"+path+"/sessions/x", w.operator, "").wantProblem(t, 404, "not_found")
	wantFields(t, "ended", w.post(path+"/sign-out", w.operator, "").wantStatus(t, 200), `{"ended":1}`)
	w.post("people/"+uuid.NewString()+"/sign-out", w.operator, "").wantProblem(t, 404, "not_found")
	w.get("people/"+uuid.NewString()+"/sessions", w.operator).wantProblem(t, 404, "not_found")
	w.get("approvals", token).wantStatus(t, 200) // the token still works
}

// An operator cannot make a token of another person, known or not: decisions with it would be in that person's name.
func TestNoTokenForAnotherPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vera := w.personID(w.createToken("vera", identity.Reviewer))
	for _, body := range []string{
		`{"person":"vera","roles":["operator"]}`, `{"person":"alice","roles":["operator"]}`,
		fmt.Sprintf(`{"person_id":%q}`, vera), `{"person_id":"` + uuid.NewString() + `"}`,
	} {
		refused := w.post("tokens", w.operator, body).wantProblem(t, 403, "forbidden")
		if !strings.Contains(fmt.Sprint(refused["detail"]), "holdpoint invitation create") {
			t.Errorf("%s: the answer names no alternative: %v", body, refused["detail"])
		}
	}
	// The bootstrap token cannot do so either once there are people.
	w.post("tokens", bootstrap, `{"person":"alice","roles":["reviewer"]}`).wantProblem(t, 403, "forbidden")
	w.send("PATCH", "/api/v1/people/"+w.personID(w.operator).String(), w.operator, `{"granted_roles":["reviewer"]}`).wantProblem(t, 403, "forbidden")
	own := w.post("tokens", w.reviewer, `{}`).wantStatus(t, 201)
	if w.personID(fmt.Sprint(own["key"])) != w.personID(w.reviewer) {
		t.Errorf("made %v", own)
	}
}

// An invited person decides no calls of the inviter, or of agents whose keys the inviter made.
func TestInvitedDecideNothingOfTheirInviter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	invite := func(by, name, role string) string {
		made := w.post("invitations", by, fmt.Sprintf(`{"name":%q,"roles":[%q]}`, name, role)).wantStatus(t, 201)
		key := fmt.Sprint(made["key"])
		if url := fmt.Sprint(made["url"]); !strings.HasSuffix(url, "/invitation?key="+key) {
			t.Errorf("link %s", url)
		}
		w.get("approvals", key).wantProblem(t, 403, "forbidden") // it allows one operation only
		w.post("tokens", key, `{}`).wantProblem(t, 403, "forbidden")
		redeemed := w.post("invitations/redeem", key, "").wantStatus(t, 201)
		w.post("invitations/redeem", key, "").wantProblem(t, 401, "unauthenticated")
		return fmt.Sprint(redeemed["key"])
	}
	puppet := invite(w.operator, "alice", "reviewer")
	second := invite(invite(w.operator, "omar", "operator"), "ben", "reviewer") // through another inviter
	approve := func(token string, principal uuid.UUID) answer {
		id := w.submitCall("files__write", fmt.Sprintf(`{"n":%q}`, uuid.NewString()), principal)
		shown := w.get("approvals/"+id.String(), token).wantStatus(t, 200)
		return w.post("approvals/"+id.String()+"/approve", token, fmt.Sprintf(`{"digest":%q}`, shown["digest"]))
	}
	olga := w.personID(w.operator)
	approve(puppet, olga).wantProblem(t, 403, "not_verified")
	approve(second, olga).wantProblem(t, 403, "not_verified")
	approve(puppet, uuid.Nil).wantStatus(t, 200) // with a key that another person made
	w.post("agents/billing/keys", w.operator, "").wantStatus(t, 201)
	approve(puppet, uuid.Nil).wantProblem(t, 403, "not_verified")
	approve(second, uuid.Nil).wantProblem(t, 403, "not_verified")
	// The same holds for questions of the calls' servers after the approval.
	asked := w.approveAsked(uuid.Nil, w.reviewer)
	question := fmt.Sprintf(`{"digest":%q}`, w.waitForQuestion(asked, "pending")["digest"])
	w.post("approvals/"+asked.String()+"/questions/1/approve", puppet, question).wantProblem(t, 403, "not_verified")
	w.post("approvals/"+asked.String()+"/questions/1/reject", w.reviewer, question).wantStatus(t, 200)
	decided := approve(w.reviewer, olga).wantStatus(t, 200) // who was not invited
	wantMembers(t, "decision", decided, `{"principal_person":{"name":"olga","issuer":"holdpoint","subject":"olga","invited_by":null},
		"decision":{"by":"rita","by_person":{"subject":"rita","issuer":"holdpoint"},"credential":{"kind":"personal_token"}}}`)
	shown := w.get("people/"+w.personID(puppet).String(), w.operator).wantStatus(t, 200)
	wantMembers(t, "puppet", shown, `{"invited_by":{"name":"olga"}}`)
	event := listItems(t, w.get("audit?action=approval.approved&limit=1", w.operator).wantStatus(t, 200))
	wantMembers(t, "event", event[0], `{"actor":{"name":"rita","subject":"rita"},"credential":{"kind":"personal_token"}}`)
}

// wantMembers checks the named members of an object, at any depth.
func wantMembers(t *testing.T, what string, got any, want string) {
	t.Helper()
	var wanted any
	decoder := json.NewDecoder(strings.NewReader(want))
	decoder.UseNumber()
	check(t, decoder.Decode(&wanted))
	var compare func(at string, got, want any)
	compare = func(at string, got, want any) {
		if elements, ok := want.([]any); ok {
			list, _ := got.([]any)
			if len(list) != len(elements) {
				t.Errorf("%s: %s is %v, want %d elements", what, at, got, len(elements))
				return
			}
			for i := range elements {
				compare(fmt.Sprintf("%s[%d]", at, i), list[i], elements[i])
			}
			return
		}
		members, ok := want.(map[string]any)
		if !ok {
			if got != want {
				t.Errorf("%s: %s is %v, want %v", what, at, got, want)
			}
			return
		}
		object, _ := got.(map[string]any)
		for name, value := range members {
			compare(at+"."+name, object[name], value)
		}
	}
	compare("", got, wanted)
}

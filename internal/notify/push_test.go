package notify_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

var base64url = base64.RawURLEncoding

// browser holds the secrets of a subscription, with which messages can be decrypted.
type browser struct {
	key  *ecdh.PrivateKey
	auth []byte
}

func newBrowser(t testing.TB) browser {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	check(t, err)
	auth := make([]byte, 16)
	_, err = rand.Read(auth)
	check(t, err)
	return browser{key, auth}
}

func (b browser) newSubscription(endpoint string) notify.Subscription {
	return notify.Subscription{
		Endpoint: endpoint, P256DH: base64url.EncodeToString(b.key.PublicKey().Bytes()), Auth: base64url.EncodeToString(b.auth),
		Client: "Mozilla/5.0 (X11; Linux x86_64)",
	}
}

// decrypt decrypts a message (RFC 8291, RFC 8188).
func (b browser) decrypt(t testing.TB, body []byte) []byte {
	t.Helper()
	salt, size, length := body[:16], binary.BigEndian.Uint32(body[16:20]), int(body[20])
	sender, record := body[21:21+length], body[21+length:]
	if len(record) > int(size) || len(body) > 4096 {
		t.Fatalf("a record of %d bytes, of at most %d, in a body of %d", len(record), size, len(body))
	}
	public, err := ecdh.P256().NewPublicKey(sender)
	check(t, err)
	shared, err := b.key.ECDH(public)
	check(t, err)
	derive := func(key, salt []byte, info string, n int) []byte {
		out, err := hkdf.Key(sha256.New, key, salt, info, n)
		check(t, err)
		return out
	}
	ikm := derive(shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender), 32)
	block, err := aes.NewCipher(derive(ikm, salt, "Content-Encoding: aes128gcm\x00", 16))
	check(t, err)
	gcm, err := cipher.NewGCM(block)
	check(t, err)
	text, err := gcm.Open(nil, derive(ikm, salt, "Content-Encoding: nonce\x00", 12), record, nil)
	check(t, err)
	text = []byte(strings.TrimRight(string(text), "\x00"))
	if len(text) == 0 || text[len(text)-1] != 2 {
		t.Fatalf("the last record does not end with its delimiter: %q", text)
	}
	return text[:len(text)-1]
}

// pushed is the message for the service worker.
type pushed struct {
	Show []struct {
		ID    uuid.UUID `json:"id"`
		Kind  string    `json:"kind"`
		Call  string    `json:"call"`
		Team  string    `json:"team"`
		Title string    `json:"title"`
		Until int64     `json:"until"`
	} `json:"show"`
	More    int         `json:"more"`
	Ended   []uuid.UUID `json:"ended"`
	Waiting int         `json:"waiting"`
}

func (b browser) read(t testing.TB, r received) pushed {
	t.Helper()
	var p pushed
	check(t, json.Unmarshal(b.decrypt(t, r.body), &p))
	return p
}

// pushService starts a push service on a trusted private address.
type pushService struct{ *receiver }

func newPushService(t testing.TB, answers ...http.HandlerFunc) pushService {
	t.Helper()
	r := &receiver{answers: answers}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	return pushService{r}
}

func (p pushService) host() string { return strings.TrimPrefix(p.URL, "https://") }

func (p pushService) trustHost(c *notify.Config) {
	pool := x509.NewCertPool()
	pool.AddCert(p.Certificate())
	c.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	c.PushHosts = []string{p.host()}
}

// messagesTo returns the messages to an endpoint.
func (p pushService) messagesTo(path string) []received {
	return slices.DeleteFunc(p.listReceived(), func(r received) bool { return r.path != path })
}

func (p pushService) awaitTo(t testing.TB, path string, n int) []received {
	t.Helper()
	eventually.Holds(t, "the push service is asked", func() bool { return len(p.messagesTo(path)) >= n })
	return p.messagesTo(path)
}

// newPerson makes a person with a token with these roles, and teams.
func (w *world) newPerson(name string, roles []identity.Role, teams ...string) uuid.UUID {
	w.t.Helper()
	_, credential, err := w.people.CreateToken(w.t.Context(), uuid.Nil, name, roles, nil)
	check(w.t, err)
	access, err := w.people.Authenticate(w.t.Context(), credential)
	check(w.t, err)
	session, err := w.people.BeginSession(w.t.Context(), access, identity.NewSession{Client: "Firefox", Lifetime: 24 * time.Hour})
	check(w.t, err)
	w.sessions[access.Person.ID] = session.ID
	_, err = w.db.Pool().Exec(w.t.Context(), `UPDATE people SET granted_teams = coalesce($2, '{}'::text[]) WHERE id = $1`, access.Person.ID, teams)
	check(w.t, err)
	return access.Person.ID
}

// subscribe subscribes a person's browser in their session, unless the subscription names another one.
func (w *world) subscribe(person uuid.UUID, s notify.Subscription) error {
	w.t.Helper()
	if s.Session == uuid.Nil {
		s.Session = w.sessions[person]
	}
	return w.notify.Subscribe(w.t.Context(), person, s)
}

var reviewer = []identity.Role{identity.Reviewer}

func TestPush(t *testing.T) {
	t.Parallel()
	service := newPushService(t, answerStatus(http.StatusCreated))
	w := newWorld(t, service.trustHost)
	ana, b := w.newPerson("ana", reviewer), newBrowser(t)
	check(t, w.subscribe(ana, b.newSubscription(service.URL+"/hushhush")))
	e := w.parkCalls(1, func(e *notify.Event) { e.Tool = "write\u202e_file" })[0]
	w.queueEvents(e)
	got := service.awaitMessages(t, 1)[0]
	p := b.read(t, got)
	if len(p.Show) != 1 || p.Show[0].ID != e.CallID || p.Show[0].Kind != "parked" || p.Show[0].Call != `files: write\u202e_file (billing)` ||
		p.Show[0].Title != "Call waits: "+p.Show[0].Call ||
		p.Show[0].Until != e.Deadline.UnixMilli() || p.More != 0 || p.Waiting != 1 || len(p.Ended) != 0 {
		t.Errorf("%+v", p)
	}
	ttl, err := strconv.Atoi(got.header.Get("TTL"))
	if err != nil || ttl < 200 || ttl > 300 || got.header.Get("Urgency") != "high" || got.header.Get("Content-Encoding") != "aes128gcm" {
		t.Errorf("%v", got.header)
	}
	w.wantSigned(got, service.URL)
	w.waitForIdle()
	if list, err := w.notify.Browsers(t.Context(), ana); err != nil || len(list) != 1 || list[0].SentAt == nil || list[0].Error != "" ||
		list[0].Host != service.host() || list[0].Mark != notify.MarkOf(service.URL+"/hushhush") || !strings.HasPrefix(list[0].Client, "Mozilla") {
		t.Errorf("%+v %v", list, err)
	}
	w.wantNowhere("hushhush", base64url.EncodeToString(b.auth))
}

// wantSigned checks that this server signed a message for its push service (RFC 8292).
func (w *world) wantSigned(r received, audience string) {
	w.t.Helper()
	public, err := w.notify.PushKey(w.t.Context())
	check(w.t, err)
	token, key, ok := strings.Cut(strings.TrimPrefix(r.header.Get("Authorization"), "vapid t="), ", k=")
	if !ok || key != public {
		w.t.Fatalf("Authorization: %s", r.header.Get("Authorization"))
	}
	point, err := base64url.DecodeString(public)
	check(w.t, err)
	var jwk jose.JSONWebKey
	check(w.t, jwk.UnmarshalJSON(fmt.Appendf(nil, `{"kty":"EC","crv":"P-256","x":%q,"y":%q}`,
		base64url.EncodeToString(point[1:33]), base64url.EncodeToString(point[33:]))))
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	check(w.t, err)
	var claims jwt.Claims
	check(w.t, parsed.Claims(jwk, &claims))
	if left := time.Until(claims.Expiry.Time()); !slices.Equal(claims.Audience, []string{audience}) || left <= 0 || left > 24*time.Hour ||
		claims.Subject != "https://gate.example" {
		w.t.Errorf("%+v", claims)
	}
}

func TestWhoIsPushed(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	people := map[string]uuid.UUID{
		"blue1": w.newPerson("blue1", reviewer, "blue"), "blue2": w.newPerson("blue2", reviewer, "blue", "red"),
		"red": w.newPerson("red", reviewer, "red"), "operator": w.newPerson("operator", []identity.Role{identity.Operator}, "blue"),
		"blocked": w.newPerson("blocked", reviewer, "blue"), "twin": w.newPerson("twin", reviewer, "blue"), "alone": w.newPerson("alone", reviewer, "lonely"),
	}
	// Operators declared two of them to be the same person.
	check(t, w.people.Link(t.Context(), w.by, people["twin"], people["blue1"]))
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE people SET blocked_at = now() WHERE id = $1`, people["blocked"])
	check(t, err)
	browsers := map[string]browser{}
	for name, id := range people {
		browsers[name] = newBrowser(t)
		check(t, w.subscribe(id, browsers[name].newSubscription(service.URL+"/"+name)))
	}
	seen := map[string]int{}
	for _, tc := range []struct {
		what      string
		team      string
		principal uuid.UUID
		want      []string
	}{
		{"a team's", "blue", uuid.Nil, []string{"blue1", "blue2", "twin"}},
		{"nobody's", "", uuid.Nil, []string{"alone", "blue1", "blue2", "red", "twin"}},
		{"a team's without members", "green", uuid.Nil, []string{"alone", "blue1", "blue2", "red", "twin"}},
		{"for a member", "blue", people["blue2"], []string{"blue1", "twin"}},
		{"for one of two accounts", "blue", people["blue1"], []string{"blue2"}},
		{"for the other of them", "blue", people["twin"], []string{"blue2"}},
		{"for a member, who is the only one", "lonely", people["alone"], []string{"blue1", "blue2", "red", "twin"}},
		{"for somebody else", "red", uuid.New(), []string{"blue2", "red"}},
	} {
		w.queueEvents(w.parkCalls(1, func(e *notify.Event) { e.Team, e.PrincipalID = tc.team, tc.principal })...)
		w.waitForIdle()
		var got []string
		for name := range people {
			if n := len(service.messagesTo("/" + name)); n > seen[name] {
				got = append(got, name)
				seen[name] = n
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.what, got, tc.want)
		}
	}
}

// TestWhoIsPushedAtAMoment: whoever is on call is notified first, or their substitute too; a step that names the team asks all of it, and a
// later step notifies again.
func TestWhoIsPushedAtAMoment(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	people := map[string]uuid.UUID{
		"ann": w.newPerson("ann", reviewer, "blue"), "ben": w.newPerson("ben", reviewer, "blue"), "cem": w.newPerson("cem", reviewer),
		"dan": w.newPerson("dan", reviewer), "eva": w.newPerson("eva", reviewer),
	}
	w.people.Invalidate()
	for name, id := range people {
		check(t, w.subscribe(id, newBrowser(t).newSubscription(service.URL+"/"+name)))
	}
	now := time.Now()
	_, err := w.people.AddAbsence(t.Context(), w.by, identity.NewAbsence{Person: people["ann"], Substitute: people["cem"], Ends: now.Add(2 * time.Hour)})
	check(t, err)
	_, err = w.people.Delegate(t.Context(), w.by, identity.NewDelegation{Team: "blue", Person: people["dan"], Ends: now.Add(2 * time.Hour)})
	check(t, err)
	onCall := []identity.Shift{{Starts: now.Add(-time.Hour), Ends: now.Add(time.Hour), Names: [][]string{{"Ann"}}}}
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error { return identity.ReplaceShifts(t.Context(), tx, "blue", onCall) }))
	parked := w.parkCalls(1, func(e *notify.Event) { e.Team = "blue" })[0]
	seen := map[string]int{}
	want := func(what string, e notify.Event, names ...string) {
		t.Helper()
		w.queueEvents(e)
		w.waitForIdle()
		var got []string
		for name := range people {
			if n := len(service.messagesTo("/" + name)); n > seen[name] {
				got = append(got, name)
				seen[name] = n
			}
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			t.Errorf("%s: %v, want %v", what, got, names)
		}
	}
	step := func(n int, change func(e *notify.Event)) notify.Event {
		e := parked
		e.Kind, e.Step = notify.Escalated, n
		change(&e)
		return e
	}
	want("who is on call, and the substitute", parked, "ann", "cem")
	want("the whole team", step(1, func(e *notify.Event) { e.Whole = true }), "ann", "ben", "cem", "dan")
	want("a person and the substitute", step(2, func(e *notify.Event) { e.Team, e.People = "", []uuid.UUID{people["ann"]} }), "ann", "cem")
	want("nobody who is known", step(3, func(e *notify.Event) { e.Team = "green" }), "ann", "ben", "cem", "dan", "eva")
	want("of whom the call is", w.parkCalls(1, func(e *notify.Event) { e.Team, e.PrincipalID = "blue", people["ann"] })[0], "cem")
	w.db.MoveClock("3 hours")
	want("nobody is on call or stands in", w.parkCalls(1, func(e *notify.Event) { e.Team = "blue" })[0], "ann", "ben")
}

// TestAllWhomAPolicyAsksArePushed: a call can ask several teams and people by their names. Each person is notified once, and so is each chat.
func TestAllWhomAPolicyAsksArePushed(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	people := map[string]uuid.UUID{
		"ann": w.newPerson("ann", reviewer, "blue"), "ben": w.newPerson("ben", reviewer, "red", "blue"), "cfo": w.newPerson("cfo", reviewer),
		"dan": w.newPerson("dan", reviewer, "green"),
	}
	w.people.Invalidate()
	browsers := map[string]browser{}
	for name, id := range people {
		browsers[name] = newBrowser(t)
		check(t, w.subscribe(id, browsers[name].newSubscription(service.URL+"/"+name)))
	}
	blue, red, green := newReceiver(t), newReceiver(t), newReceiver(t)
	w.createWebhook(blue.URL, "blue")
	w.createWebhook(red.URL, "red")
	w.createWebhook(green.URL, "green")
	counts := func() string {
		w.waitForIdle()
		return fmt.Sprint(len(service.messagesTo("/ann")), len(service.messagesTo("/ben")), len(service.messagesTo("/cfo")), len(service.messagesTo("/dan")),
			len(blue.listReceived()), len(red.listReceived()), len(green.listReceived()))
	}
	parked := w.parkCalls(1, func(e *notify.Event) { e.Asked, e.Names = []string{"blue", "red"}, []string{"CFO"} })[0]
	w.queueEvents(parked)
	if got := counts(); got != "1 1 1 0 1 1 0" {
		t.Errorf("of two teams and a person: %s", got)
	}
	parked.Kind, parked.Step = notify.Escalated, 1
	w.queueEvents(parked)
	if got := counts(); got != "2 2 2 0 2 2 0" {
		t.Errorf("escalated: %s", got)
	}
	if p := browsers["ben"].read(t, service.messagesTo("/ben")[1]); p.Show[0].Team != "blue, red" {
		t.Errorf("the message names %q", p.Show[0].Team)
	}
	w.queueEvents(w.parkCalls(1, func(e *notify.Event) { e.Asked, e.Everyone = []string{"blue"}, true })...)
	if got := counts(); got != "3 3 3 1 3 2 0" {
		t.Errorf("of a team and any reviewer: %s", got)
	}
	w.queueEvents(w.parkCalls(1, func(e *notify.Event) { e.Team = "green" })...)
	if got := counts(); got != "3 3 3 2 3 2 1" {
		t.Errorf("an event of an earlier version: %s", got)
	}
}

// TestSkippedPeopleArePushed: when one person approves alone, those who were skipped are notified, in place of the call that they were asked
// about. The message goes when somebody else has reviewed the approval.
func TestSkippedPeopleArePushed(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	ann, ben, cem := w.newPerson("ann", reviewer, "blue"), w.newPerson("ben", reviewer, "blue"), w.newPerson("cem", reviewer, "red")
	w.people.Invalidate()
	browsers := map[string]browser{}
	for name, id := range map[string]uuid.UUID{"ann": ann, "ben": ben, "cem": cem} {
		browsers[name] = newBrowser(t)
		check(t, w.subscribe(id, browsers[name].newSubscription(service.URL+"/"+name)))
	}
	chat := newReceiver(t)
	w.createWebhook(chat.URL, "blue")
	last := func(name string, n int) pushed {
		t.Helper()
		w.waitForIdle()
		messages := service.messagesTo("/" + name)
		if len(messages) != n {
			t.Fatalf("%d messages to %s, want %d", len(messages), name, n)
		}
		return browsers[name].read(t, messages[n-1])
	}
	parked := w.parkCalls(1, func(e *notify.Event) { e.Asked = []string{"blue", "red"} })[0]
	w.queueEvents(parked)
	last("ben", 1)
	parked.Asked = []string{"blue"}
	w.breakGlass(parked, ann)
	if p := last("ben", 2); len(p.Show) != 1 || p.Show[0].Kind != "broke_glass" || p.Show[0].ID != parked.CallID || p.Show[0].Until != 0 || len(p.Ended) != 0 || p.Waiting != 1 {
		t.Errorf("who was skipped: %+v", p)
	}
	for _, name := range []string{"ann", "cem"} {
		if p := last(name, 2); len(p.Show) != 0 || !slices.Equal(p.Ended, []uuid.UUID{parked.CallID}) {
			t.Errorf("%s, who approved or is not asked any more: %+v", name, p)
		}
	}
	messages := chat.listReceived()
	if len(messages) != 2 {
		t.Fatalf("%d messages to the chat", len(messages))
	}
	if m := messages[1].parseMessage(t); !strings.HasPrefix(m.Text, "One person approved alone, please review: `files`: `write_file` (`billing`): <") || strings.Contains(m.Text, "until") {
		t.Errorf("the chat: %q", m.Text)
	}
	w.decide(parked) // it was reviewed
	if p := last("ben", 3); len(p.Show) != 0 || !slices.Equal(p.Ended, []uuid.UUID{parked.CallID}) || p.Waiting != 0 {
		t.Errorf("after the review: %+v", p)
	}
	var left int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM notices`).Scan(&left))
	if left != 0 {
		t.Errorf("%d notices are left", left)
	}
}

func TestWhoMayDecideTheirOwnIsPushed(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost, func(c *notify.Config) { c.AllowSelfApproval = true })
	ana := w.newPerson("ana", reviewer)
	check(t, w.subscribe(ana, newBrowser(t).newSubscription(service.URL)))
	w.queueEvents(w.parkCalls(1, func(e *notify.Event) { e.PrincipalID = ana })...)
	service.awaitMessages(t, 1)
}

func TestWhoIsNoReviewerAnyMoreIsNotPushed(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	service := newPushService(t, answerWhen(release, answerStatus(500)))
	w := newWorld(t, service.trustHost)
	ana := w.newPerson("ana", reviewer)
	check(t, w.subscribe(ana, newBrowser(t).newSubscription(service.URL)))
	w.queueEvents(w.parkCalls(1)...)
	service.awaitMessages(t, 1)
	tokens, _, err := w.people.Tokens(t.Context(), uuid.Nil, 0)
	check(t, err)
	check(t, w.people.RevokeToken(t.Context(), uuid.Nil, tokens[0].ID))
	close(release)
	w.waitForIdle()
	w.queueEvents(w.parkCalls(1)...)
	w.waitForIdle()
	if n := len(service.listReceived()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// A subscription ends with its session, also if the session's token ends or the session expires.
func TestSubscriptionsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	ana, bob := w.newPerson("ana", reviewer), w.newPerson("bob", reviewer)
	browsers := func(person uuid.UUID) int {
		t.Helper()
		list, err := w.notify.Browsers(t.Context(), person)
		check(t, err)
		return len(list)
	}
	check(t, w.subscribe(ana, newBrowser(t).newSubscription(service.URL+"/ana")))
	check(t, w.subscribe(bob, newBrowser(t).newSubscription(service.URL+"/bob")))
	if err := w.notify.Subscribe(t.Context(), ana, newBrowser(t).newSubscription(service.URL+"/nowhere")); err == nil {
		t.Error("somebody subscribed who is not signed in")
	}
	tokens, err := w.people.TokensOf(t.Context(), ana)
	check(t, err)
	check(t, w.people.RevokeToken(t.Context(), uuid.Nil, tokens[0].ID))
	if browsers(ana) != 0 || browsers(bob) != 1 {
		t.Errorf("after the token's end: %d of ana, %d of bob", browsers(ana), browsers(bob))
	}
	_, err = w.db.Pool().Exec(t.Context(), `UPDATE person_sessions SET expires_at = holdpoint_now() - interval '1 second' WHERE id = $1`, w.sessions[bob])
	check(t, err)
	w.people.Invalidate()
	w.queueEvents(w.parkCalls(1)...)
	w.waitForIdle()
	if n := len(service.listReceived()); n != 0 || browsers(bob) != 1 {
		t.Errorf("%d messages to a session that is over, %d browsers", n, browsers(bob))
	}
	_, err = w.db.Pool().Exec(t.Context(), `UPDATE clock_offset SET value = '25 hours'`)
	check(t, err)
	check(t, w.people.SweepSessions(t.Context()))
	if browsers(bob) != 0 {
		t.Error("the subscription outlived the last of its session")
	}
}

// A person may have two sessions. The roles in the session of the subscription count.
func TestSubscriptionsHaveTheRolesOfTheirSession(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	ana := w.newPerson("ana", reviewer)
	asReviewer := newBrowser(t).newSubscription(service.URL + "/reviewer")
	asReviewer.Session = w.sessions[ana]
	check(t, w.subscribe(ana, asReviewer))
	w.newPerson("ana", []identity.Role{identity.Operator}) // in another browser
	check(t, w.subscribe(ana, newBrowser(t).newSubscription(service.URL+"/operator")))
	w.queueEvents(w.parkCalls(1)...)
	service.awaitTo(t, "/reviewer", 1)
	w.waitForIdle()
	if n := len(service.messagesTo("/operator")); n != 0 {
		t.Errorf("%d messages to an operator", n)
	}
}

func TestWhatWasShownIsTakenBack(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	ana, b := w.newPerson("ana", reviewer, "blue"), newBrowser(t)
	check(t, w.subscribe(ana, b.newSubscription(service.URL+"/ana")))
	bob := w.newPerson("bob", reviewer)
	check(t, w.subscribe(bob, newBrowser(t).newSubscription(service.URL+"/bob")))
	parked := w.parkCalls(6, func(e *notify.Event) { e.Team = "blue" })
	w.queueEvents(parked...)
	p := b.read(t, service.awaitTo(t, "/ana", 1)[0])
	if len(p.Show) != 3 || p.Show[0].ID != parked[0].CallID || p.More != 3 || p.Waiting != 6 {
		t.Errorf("%+v", p)
	}
	w.waitForIdle()
	w.decide(parked[0])
	p = b.read(t, service.awaitTo(t, "/ana", 2)[1])
	if len(p.Show) != 0 || !slices.Equal(p.Ended, []uuid.UUID{parked[0].CallID}) || p.Waiting != 5 {
		t.Errorf("%+v", p)
	}
	w.waitForIdle()
	again := parked[1]
	again.Kind = notify.Escalated
	w.queueEvents(again)
	p = b.read(t, service.awaitTo(t, "/ana", 3)[2])
	if len(p.Show) != 1 || p.Show[0].Kind != "escalated" || p.Show[0].Team != "blue" || !strings.HasPrefix(p.Show[0].Title, "Still undecided, now asking blue: ") || p.Waiting != 5 {
		t.Errorf("%+v", p)
	}
	w.waitForIdle()
	for _, e := range parked[1:] {
		w.decide(e)
	}
	w.waitForIdle()
	ended := map[uuid.UUID]bool{}
	for _, r := range service.messagesTo("/ana")[3:] {
		p = b.read(t, r)
		for _, id := range p.Ended {
			ended[id] = true
		}
	}
	if len(ended) != 5 || p.Waiting != 0 {
		t.Errorf("%v ended, %d still wait", ended, p.Waiting)
	}
	if n := len(service.messagesTo("/bob")); n != 0 {
		t.Errorf("%d messages to somebody who was shown nothing", n)
	}
	var left int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM notices`).Scan(&left))
	if left != 0 {
		t.Errorf("%d notices are left", left)
	}
}

// Messages never exceed the limit of push services.
func TestLargestPush(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	ana, b := w.newPerson("ana", reviewer), newBrowser(t)
	check(t, w.subscribe(ana, b.newSubscription(service.URL)))
	long := func(e *notify.Event) {
		e.Team = strings.Repeat("\u202e", 500)
		e.Kind, e.Agent, e.Skill, e.Tool = notify.Escalated, strings.Repeat("\u202e", 500), strings.Repeat("\x00", 500), strings.Repeat("<", 500)
	}
	parked := w.parkCalls(60, long)
	w.queueEvents(parked...)
	w.waitForIdle()
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		events := w.parkCalls(4, long)
		for _, e := range parked {
			w.queue.remove(e.CallID)
			e.Kind = notify.Decided
			events = append(events, e)
		}
		return w.notify.Queue(t.Context(), tx, events)
	}))
	w.waitForIdle()
	got := service.listReceived()
	if len(got) != 4 {
		t.Fatalf("%d messages", len(got))
	}
	ended := 0
	for i, r := range got {
		p := b.read(t, r)
		ended += len(p.Ended)
		if i == 1 && (len(p.Show) != 3 || p.More != 1 || len(p.Ended) != 20) {
			t.Errorf("%+v", p)
		}
	}
	if ended != 60 {
		t.Errorf("%d calls were taken back", ended)
	}
}

func TestGoneBrowsersAreForgotten(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusNotFound, http.StatusGone} {
		service := newPushService(t, answerStatus(code))
		w := newWorld(t, service.trustHost)
		ana := w.newPerson("ana", reviewer)
		check(t, w.subscribe(ana, newBrowser(t).newSubscription(service.URL)))
		w.queueEvents(w.parkCalls(1)...)
		service.awaitMessages(t, 1)
		w.waitForIdle()
		if list, err := w.notify.Browsers(t.Context(), ana); err != nil || len(list) != 0 {
			t.Errorf("%d: %+v %v", code, list, err)
		}
		if got := w.db.Actions(ana); !strings.HasSuffix(got, "push_subscription.created push_subscription.deleted") {
			t.Errorf("%d: audit %v", code, got)
		}
		eventually.Holds(t, "nobody is thought to want to know", func() bool {
			before := w.db.Count("river_job WHERE true")
			w.queueEvents(w.parkCalls(1)...)
			return w.db.Count("river_job WHERE true") == before
		})
	}
}

func TestRefusedPushShows(t *testing.T) {
	t.Parallel()
	service := newPushService(t, answerStatus(http.StatusForbidden))
	w := newWorld(t, service.trustHost)
	ana := w.newPerson("ana", reviewer)
	check(t, w.subscribe(ana, newBrowser(t).newSubscription(service.URL)))
	w.queueEvents(w.parkCalls(1)...)
	w.waitForIdle()
	if list, err := w.notify.Browsers(t.Context(), ana); err != nil || len(list) != 1 || list[0].Error != "answered HTTP 403" {
		t.Errorf("%+v %v", list, err)
	}
}

// The URLs come from browsers and must not lead to private addresses.
func TestPushServicesOnPrivateAddresses(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost, func(c *notify.Config) { c.PushHosts = nil })
	ana := w.newPerson("ana", reviewer)
	check(t, w.subscribe(ana, newBrowser(t).newSubscription(service.URL)))
	w.queueEvents(w.parkCalls(1)...)
	w.waitForIdle()
	if list, err := w.notify.Browsers(t.Context(), ana); err != nil || len(list) != 1 || list[0].Error != "is not at a public address" {
		t.Errorf("%+v %v", list, err)
	}
	if n := len(service.listReceived()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestSubscriptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana, good := w.newPerson("ana", reviewer), newBrowser(t).newSubscription("https://push.example/x")
	for name, tc := range map[string]struct {
		field  string
		change func(*notify.Subscription)
	}{
		"no https":     {"endpoint", func(s *notify.Subscription) { s.Endpoint = "http://push.example/x" }},
		"no endpoint":  {"endpoint", func(s *notify.Subscription) { s.Endpoint = "" }},
		"a password":   {"endpoint", func(s *notify.Subscription) { s.Endpoint = "https://a:b@push.example/x" }},
		"long":         {"endpoint", func(s *notify.Subscription) { s.Endpoint += strings.Repeat("x", 3000) }},
		"no key":       {"p256dh", func(s *notify.Subscription) { s.P256DH = "" }},
		"no base64url": {"p256dh", func(s *notify.Subscription) { s.P256DH = "=" }},
		"no point": {"p256dh", func(s *notify.Subscription) {
			s.P256DH = base64url.EncodeToString(append([]byte{4}, make([]byte, 64)...))
		}},
		"compressed": {"p256dh", func(s *notify.Subscription) {
			s.P256DH = base64url.EncodeToString(append([]byte{2}, make([]byte, 32)...))
		}},
		"no secret":    {"auth", func(s *notify.Subscription) { s.Auth = "" }},
		"short secret": {"auth", func(s *notify.Subscription) { s.Auth = "AAAA" }},
	} {
		bad := good
		tc.change(&bad)
		err := w.subscribe(ana, bad)
		if invalid, ok := errors.AsType[*fault.InvalidError](err); !ok || invalid.Fields[0].Name != tc.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSubscriptionsOfPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	ana, bob := w.newPerson("ana", reviewer), w.newPerson("bob", reviewer)
	for i := range 10 {
		check(t, w.subscribe(ana, newBrowser(t).newSubscription(fmt.Sprintf("https://push.example/%d", i))))
	}
	err := w.subscribe(ana, newBrowser(t).newSubscription("https://push.example/10"))
	if invalid, ok := errors.AsType[*fault.InvalidError](err); !ok || invalid.Fields[0].Name != "endpoint" {
		t.Errorf("the eleventh: %v", err)
	}
	check(t, w.subscribe(ana, newBrowser(t).newSubscription("https://push.example/3"))) // again, with another key
	check(t, w.subscribe(bob, newBrowser(t).newSubscription("https://push.example/4"))) // another person, in the same browser
	list, err := w.notify.Browsers(ctx, ana)
	check(t, err)
	if len(list) != 9 || list[0].Mark != notify.MarkOf("https://push.example/3") {
		t.Errorf("%+v", list)
	}
	for what, err := range map[string]error{
		"another's":            w.notify.Unsubscribe(ctx, bob, list[0].ID),
		"another's, by place":  w.notify.UnsubscribeEndpoint(ctx, bob, "https://push.example/3"),
		"what does not exist":  w.notify.Unsubscribe(ctx, ana, uuid.New()),
		"nor is at this place": w.notify.UnsubscribeEndpoint(ctx, ana, "https://push.example/4"),
	} {
		if !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(t, w.notify.Unsubscribe(ctx, ana, list[0].ID))
	check(t, w.notify.UnsubscribeEndpoint(ctx, ana, "https://push.example/5"))
	if list, err = w.notify.Browsers(ctx, ana); err != nil || len(list) != 7 {
		t.Errorf("%+v %v", list, err)
	}
	w.wantNowhere("push.example/")
}

// All processes of a database use one key, which only its keyset decrypts.
func TestPushKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type answer struct {
		key string
		err error
	}
	answers := make(chan answer)
	const processes = 5
	for range processes {
		s := w.newService()
		go func() {
			key, err := s.PushKey(context.WithoutCancel(t.Context()))
			answers <- answer{key, err}
		}()
	}
	keys := map[string]bool{}
	for range processes {
		a := <-answers
		check(t, a.err)
		keys[a.key] = true
	}
	if len(keys) != 1 {
		t.Errorf("%d keys", len(keys))
	}
	other, err := secret.Open(secret.Config{File: t.TempDir() + "/other.json"})
	check(t, err)
	if _, err := w.newService(func(c *notify.Config) { c.Box = other }).PushKey(t.Context()); !errors.Is(err, secret.ErrDecrypt) {
		t.Errorf("with another keyset: %v", err)
	}
}

func TestReseal(t *testing.T) {
	t.Parallel()
	service := newPushService(t)
	w := newWorld(t, service.trustHost)
	ana, b := w.newPerson("ana", reviewer), newBrowser(t)
	check(t, w.subscribe(ana, b.newSubscription(service.URL)))
	chat := newReceiver(t)
	w.createWebhook(chat.URL, "")
	before, err := w.notify.PushKey(t.Context())
	check(t, err)
	_, err = secret.ChangeFile(t.Context(), w.keyFile, secret.Change{Edit: (*secret.Keys).Rotate})
	check(t, err)
	rotated, err := secret.Open(secret.Config{File: w.keyFile})
	check(t, err)
	next := w.newService(service.trustHost, func(c *notify.Config) { c.Box = rotated })
	reseal := func() (n int) {
		check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) (err error) {
			n, err = next.Reseal(t.Context(), tx)
			return err
		}))
		return n
	}
	if n := reseal(); n != 3 {
		t.Errorf("%d rows", n)
	}
	if n := reseal(); n != 0 {
		t.Errorf("%d rows the second time", n)
	}
	if after, err := next.PushKey(t.Context()); err != nil || after != before {
		t.Errorf("the key is %q, was %q: %v", after, before, err)
	}
	check(t, w.river.Stop(t.Context()))
	w.start(next)
	w.notify = next
	w.queueEvents(w.parkCalls(1)...)
	b.read(t, service.awaitMessages(t, 1)[0])
	chat.awaitMessages(t, 1)
}

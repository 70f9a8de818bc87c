package notify_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

func TestQueueDoesNothingForNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parked := w.parkCalls(3)
	w.queueEvents(parked...)
	w.queueEvents(parked...) // now from the cache
	if n := w.db.Count("river_job WHERE true"); n != 0 {
		t.Fatalf("%d jobs, and nobody subscribed", n)
	}
	receiver := newReceiver(t)
	w.createWebhook(receiver.URL, "blue")
	w.queueEvents(parked...)
	w.decide(parked[0])
	if n := w.db.Count("river_job WHERE true"); n != 0 {
		t.Errorf("%d jobs about calls of no team, and of decided ones, for a webhook of team blue", n)
	}
	w.queueEvents(w.parkCalls(1, func(e *notify.Event) { e.Team = "blue" })...)
	receiver.awaitMessages(t, 1)
}

func TestQueueIsInTheTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	receiver := newReceiver(t)
	w.createWebhook(receiver.URL, "")
	parked := w.parkCalls(250)
	failure := errors.New("rolled back")
	err := postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		check(t, w.notify.Queue(t.Context(), tx, parked))
		var n int
		check(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM river_job`).Scan(&n))
		if n != 3 {
			t.Errorf("%d jobs of 250 events", n)
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if n := w.db.Count("river_job WHERE true"); n != 0 {
		t.Errorf("%d jobs of a transaction that was rolled back", n)
	}
}

func TestWebhookMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	receiver := newReceiver(t)
	hook := w.createWebhook(receiver.URL+"/services/T0/B0/secret", "")
	e := w.parkCalls(1)[0]
	w.queueEvents(e)
	got := receiver.awaitMessages(t, 1)[0]
	link := "https://gate.example/calls/" + e.CallID.String()
	m := got.parseMessage(t)
	if want := "Call waits: `files`: `write_file` (`billing`), until " + e.Deadline.UTC().Format("15:04 UTC") + ": <" + link + "|look at it>"; m.Text != want {
		t.Errorf("text %q, want %q", m.Text, want)
	}
	if len(m.Blocks) != 2 || m.Blocks[0].Text.Type != "plain_text" || m.Blocks[0].Text.Text != "Call waits: files: write_file (billing)" ||
		!strings.HasPrefix(m.Blocks[1].Elements[0].Text, "<"+link+"|Look at it> · until <!date^"+strconv.FormatInt(e.Deadline.Unix(), 10)+"^{time}|") {
		t.Errorf("blocks %s", got.body)
	}
	if got.path != "/services/T0/B0/secret" || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
		t.Errorf("sent to %s as %s", got.path, got.header.Get("Content-Type"))
	}
	w.waitForIdle()
	if s := w.getWebhook(hook); s.SentAt == nil || s.FailedAt != nil || s.Error != "" {
		t.Errorf("%+v", s)
	}
}

func TestWhatAWebhookIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all, blue := newReceiver(t), newReceiver(t)
	w.createWebhook(all.URL, "")
	w.createWebhook(blue.URL, "blue")
	far := w.parkCalls(1, func(e *notify.Event) { e.Team, e.Deadline = "red", time.Date(2090, 1, 2, 3, 4, 0, 0, time.UTC) })[0]
	w.queueEvents(far)
	if m := all.awaitMessages(t, 1)[0].parseMessage(t); !strings.Contains(m.Text, "until 2 Jan 03:04 UTC") || !strings.Contains(m.Blocks[1].Elements[0].Text, "{date_short_pretty} {time}") {
		t.Errorf("far away: %+v", m)
	}
	far.Kind, far.Team = notify.Escalated, "blue"
	w.queueEvents(far)
	if m := blue.awaitMessages(t, 1)[0].parseMessage(t); !strings.HasPrefix(m.Text, "Still undecided, now asking blue: ") {
		t.Errorf("escalated: %q", m.Text)
	}
	all.awaitMessages(t, 2)
	far.Kind, far.Team = notify.NoReviewer, ""
	w.queueEvents(far)
	all.awaitMessages(t, 3)
	far.Kind, far.Tool = notify.Planned, ""
	w.queueEvents(far)
	if m := all.awaitMessages(t, 4)[3].parseMessage(t); !strings.HasPrefix(m.Text, "Plan waits: `files` (`billing`), until ") || !strings.Contains(m.Text, "https://gate.example/plans/"+far.CallID.String()) {
		t.Errorf("a plan: %q", m.Text)
	}
	w.waitForIdle()
	got := all.listReceived()
	if len(got) != 4 || len(blue.listReceived()) != 1 {
		t.Fatalf("%d and %d messages", len(got), len(blue.listReceived()))
	}
	if m := got[2].parseMessage(t); !strings.HasPrefix(m.Text, "Call waits that no reviewer may decide: ") {
		t.Errorf("no reviewer: %q", m.Text)
	}
}

// Names of skills and agents have no effect in a chat.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ tool, text, block string }{
		"everybody is called":   {"<!here> <!channel>", "`&lt;!here&gt; &lt;!channel&gt;`", "&lt;!here&gt; &lt;!channel&gt;"},
		"a link":                {"<https://evil.example|approve>", "`&lt;https:∕∕evil.example|approve&gt;`", "&lt;https:∕∕evil.example|approve&gt;"},
		"an address":            {"see https://evil.example/x", "`see https:∕∕evil.example/x`", "see https:∕∕evil.example/x"},
		"everybody, elsewhere":  {"@channel @all", "`＠channel ＠all`", "＠channel ＠all"},
		"an end of the code":    {"a` *b* `c", "`a' *b* 'c`", "a` *b* `c"},
		"an entity":             {"&lt;!here&gt;", "`&amp;lt;!here&amp;gt;`", "&amp;lt;!here&amp;gt;"},
		"other way round":       {"a\u202eb\u2066c", "`a\\u202eb\\u2066c`", `a\u202eb\u2066c`},
		"invisible":             {"a\u200bb\U000e0041c", "`a\\u200bb\\U000e0041c`", `a\u200bb\U000e0041c`},
		"lines":                 {"a\nApproved by ana", "`a\\nApproved by ana`", `a\nApproved by ana`},
		"nothing":               {"", "`?`", ""},
		"white space":           {" \u00a0", "` \\u00a0`", ` \u00a0`},
		"long":                  {strings.Repeat("x", 5000), "`" + strings.Repeat("x", 80) + "…`", strings.Repeat("x", 80) + "…"},
		"not text":              {"a\xff", "`a\uFFFD`", "a\uFFFD"},
		"a mention of a person": {"<@U024BE7LH>", "`&lt;＠U024BE7LH&gt;`", "&lt;＠U024BE7LH&gt;"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			receiver := newReceiver(t)
			w.createWebhook(receiver.URL, "")
			w.queueEvents(w.parkCalls(1, func(e *notify.Event) { e.Tool = tc.tool })...)
			m := receiver.awaitMessages(t, 1)[0].parseMessage(t)
			if want := "Call waits: `files`: " + tc.text + " (`billing`), until "; !strings.HasPrefix(m.Text, want) {
				t.Errorf("text %q, want %q", m.Text, want)
			}
			if want := "Call waits: files: " + tc.block + " (billing)"; m.Blocks[0].Text.Text != want || m.Blocks[0].Text.Type != "plain_text" {
				t.Errorf("block %q, want %q", m.Blocks[0].Text.Text, want)
			}
		})
	}
}

func TestBurstBecomesFewMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	receiver := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	w.createWebhook(receiver.URL, "")
	w.queueEvents(w.parkCalls(1)...)
	receiver.awaitMessages(t, 1)
	burst := w.parkCalls(17)
	for _, e := range burst {
		w.queueEvents(e)
	}
	eventually.Holds(t, "all events are spread", func() bool { return w.db.Count(`river_job WHERE kind = 'notify_spread' AND `+unfinished) == 0 })
	if n := w.db.Count(`river_job WHERE kind = 'notify_deliver'`); n > 3 {
		t.Errorf("%d jobs for one webhook", n)
	}
	sent := time.Now()
	close(release)
	got := receiver.awaitMessages(t, 2)
	if pause := got[1].at.Sub(sent); pause < gap {
		t.Errorf("%s between two messages, want at least %s", pause, gap)
	}
	m := got[1].parseMessage(t)
	for i, e := range burst {
		if listed := strings.Contains(m.Text, e.CallID.String()); listed != (i < 5) {
			t.Errorf("call %d is in the text: %v", i, listed)
		}
	}
	if !strings.HasSuffix(m.Text, "\n<https://gate.example/|12 more calls wait>") || m.Blocks[len(m.Blocks)-1].Text.Text != "<https://gate.example/|12 more calls wait>" {
		t.Errorf("%q", m.Text)
	}
}

// The webhook shows every failure of a receiver, and no address is stored in clear.
func TestReceiversThatFail(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t)
	for name, tc := range map[string]struct {
		answers []http.HandlerFunc
		says    *regexp.Regexp // of the webhook's error
		pause   time.Duration  // minimum, before the second attempt
		final   bool           // there is no second attempt
	}{
		"500":            {[]http.HandlerFunc{answerStatus(500)}, matchExactly("answered HTTP 500"), 900 * time.Millisecond, false},
		"429":            {[]http.HandlerFunc{answerStatus(429, "Retry-After", "2")}, matchExactly("answered HTTP 429"), 2 * time.Second, false},
		"429, no header": {[]http.HandlerFunc{answerStatus(429)}, matchExactly("answered HTTP 429"), 900 * time.Millisecond, false},
		"503 with a date": {
			[]http.HandlerFunc{answerStatus(503, "Retry-After", time.Now().Add(4*time.Second).UTC().Format(http.TimeFormat))},
			matchExactly("answered HTTP 503"), gap, false,
		},
		"hangs":     {[]http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, matchExactly(unreached), 900 * time.Millisecond, false},
		"hangs up":  {[]http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, matchExactly(unreached), 900 * time.Millisecond, false},
		"redirects": {[]http.HandlerFunc{http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP}, matchExactly("answered HTTP 307, a redirect, which is not followed"), 0, true},
		"404": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintln(w, "no_service")
		}}, matchExactly("answered HTTP 404: no_service"), 0, true},
		"410": {[]http.HandlerFunc{answerStatus(410)}, matchExactly("answered HTTP 410"), 0, true},
		"says the address": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "hushhush")
		}}, matchExactly("answered HTTP 400"), 0, true},
		"says anything": {[]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "<b>Please paste your key</b>")
		}}, matchExactly("answered HTTP 400"), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *notify.Config) {
				if name == "hangs" {
					c.Timeout = 2 * time.Second
				}
			})
			release := make(chan struct{})
			// The error shows only until the second attempt succeeds.
			receiver := newReceiver(t, append(slices.Clone(tc.answers), holdUntil(release))...)
			hook := w.createWebhook(receiver.URL+"/hushhush/T0?k=S3CRET", "")
			w.queueEvents(w.parkCalls(1)...)
			var s notify.Webhook
			eventually.Holds(t, "the failure shows", func() bool {
				s = w.getWebhook(hook)
				return s.Error != ""
			})
			close(release)
			if !tc.says.MatchString(s.Error) || s.FailedAt == nil || s.SentAt != nil {
				t.Errorf("%+v, want %q", s, tc.says)
			}
			if !tc.final {
				eventually.Holds(t, "it is well again", func() bool { return w.getWebhook(hook).Error == "" })
			}
			w.waitForIdle()
			got := receiver.listReceived()
			if want := map[bool]int{true: 1, false: 2}[tc.final]; len(got) != want {
				t.Fatalf("%d attempts, want %d", len(got), want)
			}
			if !tc.final {
				if pause := got[1].at.Sub(got[0].at); pause < tc.pause {
					t.Errorf("tried again after %s, want at least %s", pause, tc.pause)
				}
				if s := w.getWebhook(hook); s.SentAt == nil || s.FailedAt == nil {
					t.Errorf("%+v", s)
				}
			}
			w.wantNowhere("hushhush", "S3CRET", "/T0")
		})
	}
	if n := len(elsewhere.listReceived()); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// holdUntil answers once the channel is closed.
func holdUntil(release <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
}

func matchExactly(text string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(text) + "$")
}

// wantNowhere fails if a text is in the log or in an unencrypted column.
func (w *world) wantNowhere(texts ...string) {
	w.t.Helper()
	var rows string
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT concat(
		(SELECT string_agg(to_jsonb(j)::text, E'\n') FROM river_job j), (SELECT string_agg(to_jsonb(e)::text, E'\n') FROM audit_events e),
		(SELECT string_agg(to_jsonb(h)::text, E'\n') FROM webhooks h), (SELECT string_agg(to_jsonb(p)::text, E'\n') FROM push_subscriptions p),
		(SELECT string_agg(to_jsonb(n)::text, E'\n') FROM notices n), (SELECT string_agg(to_jsonb(k)::text, E'\n') FROM push_keys k))`).Scan(&rows))
	for _, text := range texts {
		if strings.Contains(rows, text) || strings.Contains(w.logs.String(), text) {
			w.t.Errorf("%q is written down:\n%s\n%s", text, rows, w.logs.String())
		}
	}
	if !strings.Contains(rows, "webhook.created") && !strings.Contains(rows, "push_subscription.created") {
		w.t.Error("the rows were not read")
	}
}

func TestAddressesThatAreNeverDialled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *notify.Config) { c.TrustedHosts = []string{"169.254.169.254"} })
	hook := w.createWebhook("http://169.254.169.254/latest/meta-data", "")
	w.queueEvents(w.parkCalls(1)...)
	w.waitForIdle()
	if s := w.getWebhook(hook); !strings.HasPrefix(s.Error, "is not at a public address") || !strings.Contains(w.logs.String(), "never dialled") {
		t.Errorf("%+v", s)
	}
}

// unreached is the error for every receiver that did not answer, however far the connection came.
const unreached = "could not be reached: the server's log says why"

// Untrusted hosts get nothing over http or on private addresses. A webhook that is older than this rule shows the error
// before anything is sent. Errors do not tell whether a port is open.
func TestWebhooksOfHostsThatAreNotTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open, silent := newReceiver(t), newReceiver(t)
	silent.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") }))
	defer secure.Close()
	errorOf := func(s *notify.Service, hook notify.Webhook) string {
		t.Helper()
		tested, err := s.TestWebhook(t.Context(), hook.Name)
		check(t, err)
		return tested.Error
	}
	reached, closed, private := w.createWebhook(open.URL, ""), w.createWebhook(silent.URL, ""), w.createWebhook(secure.URL, "")
	if got := errorOf(w.notify, closed); got != unreached || !strings.Contains(w.logs.String(), "connection refused") {
		t.Errorf("trusted and not there: %q", got)
	}
	upgraded := w.newService(func(c *notify.Config) { c.TrustedHosts = nil })
	listed, err := upgraded.Webhook(t.Context(), reached.Name)
	check(t, err)
	if listed.State() != "failing" || !strings.Contains(listed.Error, "use https") || !strings.Contains(listed.Error, "--trusted-hosts") {
		t.Errorf("before anything is sent: %+v", listed)
	}
	if a, b := errorOf(upgraded, reached), errorOf(upgraded, closed); a != b || a != listed.Error {
		t.Errorf("an open port %q, a closed one %q", a, b)
	}
	if got := errorOf(upgraded, private); !strings.HasPrefix(got, "is not at a public address") || !strings.Contains(got, "--trusted-hosts") {
		t.Errorf("a private address: %q", got)
	}
	if n := len(open.listReceived()); n != 0 {
		t.Errorf("a host that is not trusted was sent %d messages", n)
	}
	for _, url := range []string{open.URL, secure.URL, "https://localhost/hushhush", "http://chat.example/hushhush", "https://[fd00::1]/hushhush"} {
		_, err := upgraded.CreateWebhook(t.Context(), w.by, notify.NewWebhook{Name: "new", URL: url})
		if invalid, ok := errors.AsType[*fault.InvalidError](err); !ok || invalid.Fields[0].Name != "url" || strings.Contains(err.Error(), "hushhush") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestDecidedCallsAreNotAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	receiver := newReceiver(t, answerWhen(release, answerStatus(500)))
	hook := w.createWebhook(receiver.URL, "")
	parked := w.parkCalls(2)
	w.queueEvents(parked...)
	receiver.awaitMessages(t, 1)
	w.queue.remove(parked[0].CallID)
	close(release)
	got := receiver.awaitMessages(t, 2)
	w.waitForIdle()
	if m := got[1].parseMessage(t); strings.Contains(m.Text, parked[0].CallID.String()) || !strings.Contains(m.Text, parked[1].CallID.String()) {
		t.Errorf("%q", m.Text)
	}
	release = make(chan struct{})
	receiver.mu.Lock()
	receiver.answers = append(receiver.answers, answerWhen(release, answerStatus(500)))
	receiver.mu.Unlock()
	again := w.parkCalls(1)
	w.queueEvents(again...)
	receiver.awaitMessages(t, 3)
	w.queue.remove(again[0].CallID)
	close(release)
	w.waitForIdle()
	if n := len(receiver.listReceived()); n != 3 {
		t.Errorf("%d messages, the last of them about a call that does not wait", n)
	}
	if s := w.getWebhook(hook); s.Error != "answered HTTP 500" {
		t.Errorf("%+v", s)
	}
	var left int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM notices`).Scan(&left))
	if left != 0 {
		t.Errorf("%d notices are left", left)
	}
}

// Another process continues the jobs of a killed process.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	receiver := newReceiver(t)
	hook := w.createWebhook(receiver.URL, "")
	check(t, w.river.Stop(t.Context()))
	parked := w.parkCalls(2)
	// One job dies before it spreads its event, ...
	w.queueEvents(parked[0])
	// ... the other one while it sends.
	event := fmt.Sprintf(`{"kind":"parked","call_id":%q,"agent":"a","skill":"s","tool":"t","deadline":"2090-01-01T00:00:00Z","principal_id":%q}`,
		parked[1].CallID, uuid.Nil)
	for _, sql := range []string{
		`UPDATE webhooks SET next_at = holdpoint_now() + interval '1 second'`,
		`INSERT INTO notices (target_id, call_id, kind, event, tried_at) SELECT id, '` + parked[1].CallID.String() + `', 'parked', '` + event + `', holdpoint_now() FROM webhooks`,
		`INSERT INTO river_job (state, kind, queue, args, max_attempts, priority) SELECT 'available', 'notify_deliver', 'notify',
			jsonb_build_object('table', 'webhooks', 'target', id), 50, 1 FROM webhooks`,
		`UPDATE river_job SET state = 'running', attempt = 1, attempted_by = '{gone}', attempted_at = now() - interval '2 hours'`, // after one, River rescues jobs,
		`DELETE FROM river_leader`,
	} {
		w.db.Exec(sql)
	}
	second := w.newService()
	w.start(second)
	w.waitForIdle()
	var texts strings.Builder
	for _, r := range receiver.listReceived() {
		texts.WriteString(r.parseMessage(t).Text)
	}
	text := texts.String()
	for _, e := range parked {
		if strings.Count(text, e.CallID.String()) != 1 {
			t.Errorf("call %s is announced %d times", e.CallID, strings.Count(text, e.CallID.String()))
		}
	}
	if s := w.getWebhook(hook); s.SentAt == nil {
		t.Errorf("%+v", s)
	}
}

// With several sending processes, every call is announced once and the gap is kept.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		w.start(w.newService())
	}
	receivers := []*receiver{newReceiver(t), newReceiver(t)}
	for _, r := range receivers {
		w.createWebhook(r.URL, "")
	}
	parked := w.parkCalls(60)
	done := make(chan struct{})
	for i := range 3 {
		go func() {
			defer func() { done <- struct{}{} }()
			for _, e := range parked[i*20 : i*20+20] {
				w.queueEvents(e)
			}
		}()
	}
	for range 3 {
		<-done
	}
	w.waitForIdle()
	more := regexp.MustCompile(`\|(\d+) more calls? waits?>`)
	for i, r := range receivers {
		told, last := 0, time.Time{}
		for _, one := range r.listReceived() {
			text := one.parseMessage(t).Text
			told += strings.Count(text, "/calls/")
			if m := more.FindStringSubmatch(text); m != nil {
				n, err := strconv.Atoi(m[1])
				check(t, err)
				told += n
			}
			if pause := one.at.Sub(last); pause < gap {
				t.Errorf("%s between two messages", pause)
			}
			last = one.at
		}
		if told != len(parked) {
			t.Errorf("receiver %d was told of %d calls", i, told)
		}
	}
}

func TestWebhooksOfOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	receiver := newReceiver(t)
	hook, err := w.notify.CreateWebhook(ctx, w.by, notify.NewWebhook{Name: "on-call", URL: receiver.URL + "/hushhush", Team: "blue & <!here>"})
	check(t, err)
	if hook.Host != strings.TrimPrefix(receiver.URL, "http://") || hook.Team != "blue & <!here>" || hook.CreatedAt.IsZero() {
		t.Errorf("%+v", hook)
	}
	tested, err := w.notify.TestWebhook(ctx, "on-call")
	check(t, err)
	if m := receiver.awaitMessages(t, 1)[0].parseMessage(t); tested.SentAt == nil || tested.Error != "" || !strings.Contains(m.Text, "team blue &amp; &lt;!here&gt; that wait") {
		t.Errorf("%+v, told %q", tested, m.Text)
	}
	receiver.mu.Lock()
	receiver.answers = []http.HandlerFunc{answerStatus(403)}
	receiver.mu.Unlock()
	if tested, err = w.notify.TestWebhook(ctx, "on-call"); err != nil || tested.Error != "answered HTTP 403" || tested.FailedAt == nil {
		t.Errorf("%+v %v", tested, err)
	}
	list, err := w.notify.Webhooks(ctx)
	check(t, err)
	if len(list) != 1 || list[0] != w.getWebhook(hook) && list[0].Name != "on-call" {
		t.Errorf("%+v", list)
	}
	check(t, w.notify.DeleteWebhook(ctx, w.by, "on-call"))
	for _, err := range []error{w.notify.DeleteWebhook(ctx, w.by, "on-call"), second(w.notify.Webhook(ctx, "on-call")), second(w.notify.TestWebhook(ctx, "on-call"))} {
		if !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("a deleted webhook: %v", err)
		}
	}
	if got := w.db.Actions(hook.ID); got != "webhook.created webhook.deleted" {
		t.Errorf("audit: %v", got)
	}
	w.queueEvents(w.parkCalls(1, func(e *notify.Event) { e.Team = hook.Team })...)
	w.waitForIdle()
	if n := len(receiver.listReceived()); n != 2 {
		t.Errorf("%d messages", n)
	}
	w.wantNowhere("hushhush")
}

func second[T any](_ T, err error) error { return err }

func TestWebhooksThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createWebhook("https://chat.example/x", "")
	_, err := w.notify.CreateWebhook(t.Context(), w.by, notify.NewWebhook{Name: "a", URL: "https://chat.example/x"})
	check(t, err)
	for name, tc := range map[string]struct {
		field string
		n     notify.NewWebhook
	}{
		"no name":            {"name", notify.NewWebhook{URL: "https://chat.example/x"}},
		"a name in capitals": {"name", notify.NewWebhook{Name: "A", URL: "https://chat.example/x"}},
		"a name with a path": {"name", notify.NewWebhook{Name: "a/b", URL: "https://chat.example/x"}},
		"taken":              {"name", notify.NewWebhook{Name: "a", URL: "https://chat.example/x"}},
		"no URL":             {"url", notify.NewWebhook{Name: "b"}},
		"not a URL":          {"url", notify.NewWebhook{Name: "b", URL: "chat.example/hushhush"}},
		"another scheme":     {"url", notify.NewWebhook{Name: "b", URL: "ftp://chat.example/hushhush"}},
		"with a password":    {"url", notify.NewWebhook{Name: "b", URL: "https://a:hushhush@chat.example/"}},
		"with a fragment":    {"url", notify.NewWebhook{Name: "b", URL: "https://chat.example/#hushhush"}},
		"without a host":     {"url", notify.NewWebhook{Name: "b", URL: "https:///hushhush"}},
		"long":               {"url", notify.NewWebhook{Name: "b", URL: "https://chat.example/" + strings.Repeat("x", 3000)}},
		"a team with spaces": {"team", notify.NewWebhook{Name: "b", URL: "https://chat.example/x", Team: " blue"}},
		"an invisible team":  {"team", notify.NewWebhook{Name: "b", URL: "https://chat.example/x", Team: "bl\u200bue"}},
	} {
		_, err := w.notify.CreateWebhook(t.Context(), w.by, tc.n)
		invalid, ok := errors.AsType[*fault.InvalidError](err)
		if !ok || invalid.Fields[0].Name != tc.field || strings.Contains(err.Error(), "hushhush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An endless response is neither awaited nor read.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	receiver := newReceiver(t)
	receiver.answers = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}}
	hook := w.createWebhook(receiver.URL, "")
	tested, err := w.notify.TestWebhook(t.Context(), hook.Name)
	if err != nil || tested.Error != "" {
		t.Errorf("%+v %v", tested, err)
	}
}

package ui_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
)

// subscription returns the fields that a browser's script sends.
func subscription(t *testing.T, endpoint string) url.Values {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	check(t, err)
	return url.Values{
		"endpoint": {endpoint}, "p256dh": {base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())},
		"auth": {base64.RawURLEncoding.EncodeToString(make([]byte, 16))},
	}
}

func TestPushInTheSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana, bob := w.signedIn("ana", identity.Reviewer), w.signedIn("bob", identity.Reviewer)
	if page := w.signedIn("olga", identity.Operator).get("/settings"); page.find("notify-push").Length() != 0 || page.find("to-webhooks").Length() != 1 {
		t.Error("an operator who is no reviewer is offered push, or no webhooks")
	}
	page := ana.get("/settings")
	key, err := w.notify.PushKey(t.Context())
	check(t, err)
	if page.find("notify").AttrOr("data-key", "") != key || page.find("notify-push").Length() != 1 || page.find("to-webhooks").Length() != 0 ||
		page.find("notify").AttrOr("disabled", "none") == "none" {
		t.Errorf("%s", page.body)
	}
	const client = `Browser <script>alert(1)</script> ` + "\u202e"
	if a := ana.post("/settings/push", subscription(t, "https://push.example/hushhush"), "User-Agent", client); a.status != http.StatusNoContent {
		t.Fatalf("subscribe: %d %s", a.status, a.body)
	}
	if a := ana.post("/settings/push", subscription(t, "http://push.example/hushhush")); a.status != http.StatusUnprocessableEntity ||
		!strings.Contains(a.body, "must be an https URL") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("without https: %d %s", a.status, a.body)
	}
	row := ana.get("/settings").find("pushed")
	if row.Length() != 1 || row.AttrOr("data-mark", "") != notify.MarkOf("https://push.example/hushhush") || row.Find("script").Length() != 0 ||
		!strings.Contains(row.Text(), "push.example") || strings.Contains(row.Text(), "hushhush") || !strings.Contains(row.Text(), "<script>") {
		t.Errorf("%s", row.Text())
	}
	remove := row.Find("form").AttrOr("action", "")
	bob.post(remove, nil)
	if ana.get("/settings").find("pushed").Length() != 1 {
		t.Error("somebody else ended it")
	}
	if a := ana.post(remove, nil); a.status != http.StatusSeeOther || ana.get("/settings").find("pushed").Length() != 0 {
		t.Errorf("remove: %d", a.status)
	}
	for range 2 { // the second time there is nothing to end
		ana.post("/settings/push", subscription(t, "https://push.example/2"))
		for range 2 {
			if a := ana.post("/settings/push/end", url.Values{"endpoint": {"https://push.example/2"}}); a.status != http.StatusNoContent {
				t.Errorf("end: %d", a.status)
			}
		}
	}
	if ana.get("/settings").find("pushed").Length() != 0 {
		t.Error("it did not end")
	}
}

// A browser gets no push messages after signing out.
func TestSigningOutEndsPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.signedIn("ana", identity.Reviewer), w.signedIn("ana", identity.Reviewer)
	here.post("/settings/push", subscription(t, "https://push.example/here"))
	there.post("/settings/push", subscription(t, "https://push.example/there"))
	if n := here.get("/settings").find("pushed").Length(); n != 2 {
		t.Fatalf("%d browsers", n)
	}
	there.post("/sign-out", nil)
	if row := here.get("/settings").find("pushed"); row.Length() != 1 || row.AttrOr("data-mark", "") != notify.MarkOf("https://push.example/here") {
		t.Errorf("%d browsers", row.Length())
	}
	here.post("/settings/sign-out", nil)
	if n := w.signedIn("ana", identity.Reviewer).get("/settings").find("pushed").Length(); n != 0 {
		t.Errorf("%d browsers", n)
	}
}

func TestWebhooksInTheSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var says atomic.Int32
	says.Store(http.StatusOK)
	chat := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(int(says.Load())) }))
	defer chat.Close()
	v := w.signedIn("olga", identity.Operator)
	if v.get("/settings/webhooks").find("empty").Length() != 1 {
		t.Error("no word of there being none")
	}
	form := url.Values{"name": {"on-call"}, "url": {"chat.example/hushhush"}, "team": {"blue <b>"}}
	bad := v.post("/settings/webhooks", form)
	if bad.status != http.StatusUnprocessableEntity || !strings.Contains(bad.find("wrong-url").Text(), "must be an https or http URL") ||
		bad.find("hook-url").AttrOr("aria-invalid", "") != "true" || bad.find("hook-url").AttrOr("autofocus", "no") == "no" || bad.find("url-again").Length() != 0 || strings.Contains(bad.body, "hushhush") ||
		bad.find("hook-name").AttrOr("value", "") != "on-call" || bad.find("hook-team").AttrOr("value", "") != "blue <b>" {
		t.Errorf("%d %s", bad.status, bad.body)
	}
	form.Set("url", chat.URL+"/hushhush")
	made := v.post("/settings/webhooks", form)
	if made.status != http.StatusSeeOther || made.header.Get("Location") != "/settings/webhooks?done=webhook-created" {
		t.Fatalf("%d to %s", made.status, made.header.Get("Location"))
	}
	page := v.get("/settings/webhooks")
	card := page.find("webhook")
	if card.Length() != 1 || !strings.Contains(card.Text(), "blue <b>") || !strings.Contains(card.Text(), "Not tried yet") ||
		!strings.Contains(card.Text(), strings.TrimPrefix(chat.URL, "http://")) || strings.Contains(page.body, "hushhush") || card.Find("b b").Length() != 0 {
		t.Errorf("%s", card.Text())
	}
	test := func() *answer {
		t.Helper()
		a := v.post("/settings/webhooks/on-call/test", nil)
		if a.status != http.StatusSeeOther {
			t.Fatalf("test: %d", a.status)
		}
		return v.get(a.header.Get("Location"))
	}
	if a := test(); !strings.Contains(a.find("notice").Text(), "The chat accepted the message.") || !strings.Contains(a.find("webhook").Text(), "Working") {
		t.Errorf("%s", a.text())
	}
	says.Store(http.StatusGone)
	if a := test(); !strings.Contains(a.find("notice").Text(), "did not accept") || !strings.Contains(a.find("failed").Text(), "answered HTTP 410") ||
		!strings.Contains(a.find("webhook").Text(), "Failing") {
		t.Errorf("%s", a.text())
	}
	if again := v.post("/settings/webhooks", form); again.status != http.StatusUnprocessableEntity || !strings.Contains(again.find("wrong-name").Text(), "has this name") {
		t.Errorf("%d %s", again.status, again.text())
	} else if _, focused := again.find("hook-name").Attr("autofocus"); !focused || again.find("url-again").Length() != 1 || again.doc.Find("[autofocus]").Length() != 1 {
		t.Errorf("what is to be typed again: %s", again.find("new-webhook").Text())
	}
	gone := v.post("/settings/webhooks/on-call/delete", nil)
	if a := v.get(gone.header.Get("Location")); a.find("webhook").Length() != 0 || !strings.Contains(a.find("notice").Text(), "Deleted.") {
		t.Errorf("%s", a.text())
	}
	for _, path := range []string{"/test", "/delete"} { // another operator was faster
		if a := v.post("/settings/webhooks/on-call"+path, nil); a.status != http.StatusNotFound || !strings.Contains(a.find("notice").Text(), "No such webhook.") {
			t.Errorf("%s: %d %s", path, a.status, a.text())
		}
	}
}

func TestServiceWorkerIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.visitor().get("/sw.js")
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/javascript") || a.header.Get("Cache-Control") != "no-cache" ||
		a.header.Get("Content-Security-Policy") != "default-src 'none'; connect-src 'self'" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", a.status, a.header)
	}
	if again := w.visitor().get("/sw.js", "If-None-Match", a.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("unchanged: %d", again.status)
	}
}

// fakePushService replaces the browser vendor's push service, which tests cannot reach. Subscriptions are kept in
// memory; the rest is the browser's own.
const fakePushService = `
	const kept = () => JSON.parse(localStorage.getItem("fake-push"));
	const made = (record) => record && {
		endpoint: record.endpoint, toJSON: () => record,
		unsubscribe: async () => localStorage.removeItem("fake-push") ?? true,
	};
	PushManager.prototype.getSubscription = async () => made(kept());
	PushManager.prototype.subscribe = async (options) => {
		if (!options.userVisibleOnly || options.applicationServerKey.length !== 87) throw Error("bad options");
		localStorage.setItem("fake-push", '%s');
		return made(kept());
	};`

func TestPushInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fields := subscription(t, "https://push.example/1")
	p := w.signInWith(browsertest.Options{Whole: true})
	p.Permit(w.server.URL, "notifications")
	p.Before(fmt.Sprintf(fakePushService, fmt.Sprintf(`{"endpoint":%q,"keys":{"p256dh":%q,"auth":%q}}`,
		fields.Get("endpoint"), fields.Get("p256dh"), fields.Get("auth"))))
	p.Go(w.server.URL + "/settings")
	p.WaitFor("the choice", `!document.querySelector("#notify").disabled`)
	p.Click("notify-push")
	p.Wait("pushed")
	p.WaitFor("this browser to know itself", `document.querySelector(".here").checkVisibility() && document.querySelector("[value=push]").checked`)
	p.Screenshot("settings")

	// It polls slowly: Chromium loses notifications that are queried while they are about to appear.
	const shown = `new Promise((done) => setTimeout(done, 500)).then(() => navigator.serviceWorker.getRegistration()).then((r) => r.getNotifications()).then((all) => all.map((n) => n.tag + " " + n.title).sort().join("\n"))`
	const one, two = "01a200d7-0cf0-7d9e-983c-000000000001", "01a200d7-0cf0-7d9e-983c-000000000002"
	call := func(id string) map[string]any {
		return map[string]any{"id": id, "kind": "parked", "call": "files: write_file (billing)", "until": 1}
	}
	message := func(more, waiting int, ended []string, calls ...map[string]any) map[string]any {
		return map[string]any{"show": append([]map[string]any{}, calls...), "more": more, "ended": append([]string{}, ended...), "waiting": waiting}
	}
	expect := func(what, want string) {
		t.Helper()
		p.WaitForAsync(what, fmt.Sprintf("await %s === %q", shown, want))
	}
	const title = " Call waits: files: write_file (billing)"
	p.Push(w.server.URL, message(0, 2, nil, call(one), call(two)))
	expect("two calls", one+title+"\n"+two+title)
	p.Push(w.server.URL, message(3, 5, nil, call(one)))
	expect("a sum of them", one+title+"\n"+two+title+"\ncalls 5 decisions are pending")
	p.Push(w.server.URL, message(0, 4, []string{one}))
	expect("one call less", two+title+"\ncalls 4 decisions are pending")
	p.Push(w.server.URL, message(0, 1, []string{"x"}))
	expect("the sum to be gone that says no more than the rest", two+title)
	p.Push(w.server.URL, message(0, 0, []string{two}))
	expect("nothing", "")
	p.Push(w.server.URL, message(0, 1, nil, map[string]any{"id": one, "title": "Call waits: it", "until": 1}))
	expect("a call of a server of an earlier version", one+" Call waits: it")

	p.Click("remove-push")
	p.WaitGone("pushed")
	p.WaitFor("the choice to be gone", `!document.querySelector("#notify").disabled && document.querySelector("#notify [value='']").checked`)
	p.ClickOn("#notify [value=open]")
	p.WaitFor("the other choice", `localStorage.getItem("holdpoint-notify") === "open" && !localStorage.getItem("fake-push")`)
	noComplaints(t, p)
}

// Without a push service the page says so, and the worker is still installed.
func TestPushThatTheBrowserCannot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	p.Permit(w.server.URL, "notifications")
	p.Go(w.server.URL + "/settings")
	p.WaitFor("the choice", `!document.querySelector("#notify").disabled`)
	p.Click("notify-push")
	p.WaitText("notify-says", "Registering with the push service")
	p.WaitForAsync("the worker", `(await navigator.serviceWorker.ready).active.scriptURL.endsWith("/sw.js")`)
	noComplaints(t, p)
}

// recordNotifications keeps the page's notifications and lets the test set whether the page is visible.
const recordNotifications = `
	window.told = [];
	const Real = Notification;
	window.Notification = class extends Real {
		constructor(title, options) { super(title, options); told.push(title + (options.silent ? ", quietly" : "")); }
	};
	window.unseen = false;
	Object.defineProperty(document, "hidden", { get: () => unseen });`

func (w *world) park(name string) uuid.UUID {
	w.t.Helper()
	return w.submit(uuid.Nil, "files__save_csv", fmt.Sprintf(`{"filename":%q}`, name))
}

func TestOpenPagesNotify(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	p.Permit(w.server.URL, "notifications")
	p.Before(recordNotifications)
	p.Go(w.server.URL + "/calls")
	p.WaitFor("the stream", `document.documentElement.hasAttribute("data-live")`)
	browsertest.Eval[bool](p, `localStorage.setItem("holdpoint-notify", "open") ?? true`)
	w.park("seen")
	p.WaitFor("the call", `document.title.startsWith("(1)")`)

	browsertest.Eval[bool](p, `(window.unseen = true)`)
	w.park("unseen")
	p.WaitFor("a notification", `told.join() === "2 decisions are pending"`)
	second := w.park("more")
	p.WaitFor("another", `told.join() === "2 decisions are pending,3 decisions are pending"`)
	reviewer := w.signedIn("rita", identity.Reviewer)
	w.approve(reviewer, second)
	p.WaitFor("a quiet one when somebody decided", `told.at(-1) === "2 decisions are pending, quietly"`)

	// Another visible page, without the stream, is enough.
	browsertest.Eval[bool](p, `Boolean(window.other = open("/calls"))`)
	p.WaitFor("the other page", `other.document.documentElement?.hasAttribute("data-live")`)
	browsertest.Eval[bool](p, `Boolean(other.Notification = class { constructor() { told.push("the other page") } })`)
	before := browsertest.Eval[int](p, `told.length`)
	w.park("seen elsewhere")
	p.WaitFor("the call", `document.title.startsWith("(3)") && other.document.title.startsWith("(3)")`)
	browsertest.Eval[bool](p, `Boolean(Object.defineProperty(other.document, "hidden", { get: () => true }))`)
	w.park("unseen by both")
	p.WaitFor("a notification of one page", `told.length > `+strconv.Itoa(before))
	if told := browsertest.Eval[string](p, `told.slice(`+strconv.Itoa(before)+`).join()`); told != "4 decisions are pending" {
		t.Errorf("told %q", told)
	}
	noComplaints(t, p)
}

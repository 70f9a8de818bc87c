package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// armed is true once keys and buttons act on the shown call.
const armed = `(() => {
	const call = document.querySelector("#call");
	return document.documentElement.dataset.armed === [call?.dataset.call, call?.dataset.digest, call?.dataset.step, call?.dataset.edited, call?.dataset.url, call?.dataset.revealed].join() &&
		!document.querySelector("#call [hx-post]:not([data-htmx-powered])");
})()`

// removeTool turns the tool "record" into one that its server marks as destructive.
var removeTool = strings.NewReplacer(
	`"name":"record"`, `"name":"remove"`, "Records a number.", "Removes a number for good.",
	`"inputSchema"`, `"annotations":{"destructiveHint":true},"inputSchema"`,
).Replace(skill.RecordTool)

// journey is a world with reviewers in real browsers and a skill server that records calls.
type journey struct {
	*world
	p      *holdpoint.Process
	server *skill.Raw
	worker holdpoint.Agent

	describes atomic.Pointer[string] // description of the tool "record"
}

// newJourney adds settings of the skill. Its server's lists expire after a millisecond.
func newJourney(t *testing.T, settings string) *journey {
	t.Helper()
	return newJourneyIn(newWorld(t), settings)
}

func newJourneyIn(base *world, settings string) *journey {
	base.t.Helper()
	w := &journey{world: base}
	w.describeTool("Records a number.")
	w.server = (&skill.Raw{List: func(answer http.ResponseWriter, r *skill.Request) {
		record := strings.Replace(skill.RecordTool, "Records a number.", *w.describes.Load(), 1)
		r.Answer(answer, `{"ttlMs":1,"tools":[`+record+`,`+removeTool+`]}`)
	}}).Serve(w.t)
	w.p = w.startServer()
	w.applyManifest(w.p, oneSkill(w.server.URL, settings))
	w.worker = w.newAgent(w.p, "worker")
	return w
}

func (w *journey) describeTool(as string) { w.describes.Store(&as) }

// beginCall makes a call as an agent that waits for the outcome, and returns the pending approval.
func (w *journey) beginCall(tool string, n int, note string) (holdpoint.Approval, <-chan outcome) {
	w.t.Helper()
	done := newStubborn(w.worker, w.p).beginCall(w.t.Context(), "counting__"+tool, callArguments(n, note))
	return w.awaitParked(n), done
}

// parkCall makes a call as an agent that disconnects.
func (w *journey) parkCall(tool string, n int, note string) holdpoint.Approval {
	w.t.Helper()
	if err := w.worker.CallAndLeave(w.t.Context(), "counting__"+tool, callArguments(n, note)); err != nil {
		w.t.Fatal(err)
	}
	return w.awaitParked(n)
}

func (w *journey) awaitParked(n int) holdpoint.Approval {
	w.t.Helper()
	a, err := pendingFor(w.t.Context(), strconv.Itoa(n), w.p)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func callArguments(n int, note string) string { return fmt.Sprintf(`{"n":%d,"note":%q}`, n, note) }

// wantSent checks the arguments of a call that its server got; "" for none.
func (w *journey) wantSent(n int, arguments string) {
	w.t.Helper()
	times := 1
	if arguments == "" {
		times = 0
	}
	key := strconv.Itoa(n)
	if got := w.server.Arguments(key); got != arguments || w.server.Count(key) != times {
		w.t.Errorf("call %d was sent %d times, with %s; want %d times, with %s", n, w.server.Count(key), got, times, arguments)
	}
}

// wantTold waits for the agent's result and checks that it contains all parts.
func wantTold(t *testing.T, done <-chan outcome, parts ...string) {
	t.Helper()
	got := <-done
	for _, part := range parts {
		if got.err != nil || !strings.Contains(string(got.answer.Raw), part) {
			t.Errorf("the agent was told %s, %v; want %q in it", got.answer.Raw, got.err, part)
		}
	}
}

// checkDecided checks that an approval has this outcome and no other.
func (w *journey) checkDecided(id, status string) {
	w.t.Helper()
	a, err := operatorAPI(w.p).Approval(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if a.Status != status {
		w.t.Errorf("approval %s is %s, want %s", id, a.Status, status)
	}
	events, err := holdpoint.List[holdpoint.Event](w.t.Context(), operatorAPI(w.p), "audit", "subject="+id)
	if err != nil {
		w.t.Fatal(err)
	}
	var endings []string
	for _, e := range events {
		if slices.Contains([]string{"approval.approved", "approval.rejected", "approval.expired", "approval.cancelled"}, e.Action) {
			endings = append(endings, e.Action)
		}
	}
	if !slices.Equal(endings, []string{"approval." + status}) {
		w.t.Errorf("the audit of %s has the endings %v, want one: %s", id, endings, status)
	}
}

// desk is a person at a browser. At the end its pages must have no script error and no policy violation.
type desk struct {
	*browsertest.Page
	t       *testing.T
	name    string
	token   string
	address string   // of the dashboard
	expects []string // allowed complaints
}

// openReviewer opens a browser and signs a reviewer in.
func (w *journey) openReviewer(t *testing.T, name string, o browsertest.Options) *desk {
	t.Helper()
	d := w.openDesk(t, name, "reviewer", o, w.p.URL)
	d.signIn("/")
	d.Wait("queue")
	d.stayOnDecidedCalls()
	return d
}

// readAll taps the button that approves until all of the call was on the screen.
func (d *desk) readAll() {
	d.t.Helper()
	const left = `document.querySelector("[data-gate] small").textContent`
	for browsertest.Eval[bool](d.Page, `document.querySelector("[data-gate]").hasAttribute("data-unread")`) {
		before := browsertest.Eval[string](d.Page, left)
		d.Tap("approve")
		d.WaitFor("more to be read", fmt.Sprintf("%s !== %q", left, before))
	}
}

// stayOnDecidedCalls switches off that the next call opens after a decision, and shows the queue.
func (d *desk) stayOnDecidedCalls() {
	d.t.Helper()
	d.Go(d.address + "/settings")
	d.ClickOn("[name=advance]")
	d.Click("save-queue")
	d.WaitFor("the choice to be stored", `document.querySelector("[data-testid=notice]") && !document.querySelector("[name=advance]")?.checked`)
	d.Go(d.address + "/")
	d.Wait("queue")
}

// openDesk opens a browser without a session.
func (w *journey) openDesk(t *testing.T, name, role string, o browsertest.Options, address string) *desk {
	t.Helper()
	d := &desk{Page: browsertest.New(t, o), t: t, name: name, token: w.invitePerson(w.p, name, role), address: address}
	t.Cleanup(d.wantNoComplaints)
	return d
}

// signIn opens a page that requires a sign-in, and signs in.
func (d *desk) signIn(path string) {
	d.t.Helper()
	d.Go(d.address + path)
	d.giveToken()
}

// giveToken signs in on the page that asks for a token.
func (d *desk) giveToken() {
	d.t.Helper()
	d.Type("token", d.token+"\r")
	d.WaitText("person", d.name)
}

// expectStatus allows the console message about this response status.
func (d *desk) expectStatus(status int) {
	d.expects = append(d.expects, fmt.Sprintf("Failed to load resource: the server responded with a status of %d", status))
}

// expectOutage allows console messages about an unreachable server.
func (d *desk) expectOutage() {
	d.expects = append(d.expects, "Failed to load resource: net::ERR", "htmx: htmx:error: Failed to fetch")
}

func (d *desk) wantNoComplaints() {
	for _, complaint := range d.Complaints() {
		if !slices.ContainsFunc(d.expects, func(what string) bool { return strings.HasPrefix(complaint, what) }) {
			d.t.Errorf("%s's page complained: %s", d.name, complaint)
		}
	}
}

// openCall selects a call in the queue.
func (d *desk) openCall(a holdpoint.Approval) {
	d.t.Helper()
	d.ClickOn("#row-" + a.CallID + " a")
	d.awaitCall(a)
}

// awaitCall waits until a call is shown, and keys and buttons act on it.
func (d *desk) awaitCall(a holdpoint.Approval) {
	d.t.Helper()
	d.WaitFor("the call, and buttons to work", fmt.Sprintf(`document.querySelector("#call")?.dataset.call === %q && %s`, a.CallID, armed))
}

// awaitStep waits until the next step of the call is shown, and keys and buttons act on it.
func (d *desk) awaitStep(testID string) {
	d.t.Helper()
	d.Wait(testID)
	d.WaitFor("buttons to work", armed)
}

// fillField replaces the text of a field.
func (d *desk) fillField(selector, text string) {
	d.t.Helper()
	d.ClickOn(selector)
	browsertest.Eval[bool](d.Page, fmt.Sprintf(`(document.querySelector(%q).select(), true)`, selector))
	d.Press(text)
	d.WaitFor("what was typed", fmt.Sprintf(`document.querySelector(%q).value === %q`, selector, text))
}

// fieldValue returns the value of a field.
func (d *desk) fieldValue(selector string) string {
	d.t.Helper()
	return browsertest.Eval[string](d.Page, fmt.Sprintf(`document.querySelector(%q)?.value ?? ""`, selector))
}

// TestApproveAndRejectInTheBrowser: new calls appear without a reload. The agent gets the result, or the reason.
func TestApproveAndRejectInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.Wait("empty")
	first, one := w.beginCall("record", 1, "the first")
	ada.WaitText("row", "the first")
	second, two := w.beginCall("record", 2, "the second")
	ada.openCall(first)
	ada.Click("approve")
	ada.WaitText("outcome", "recorded 1")
	wantTold(t, one, "recorded 1")
	ada.openCall(second)
	ada.Type("reason", "not on a Friday")
	ada.Click("reject")
	ada.WaitText("decision", "not on a Friday")
	wantTold(t, two, "not on a Friday")
	w.wantSent(1, callArguments(1, "the first"))
	w.wantSent(2, "")
	w.checkDecided(first.CallID, "approved")
	w.checkDecided(second.CallID, "rejected")
	ada.WaitFor("the title to count nothing", `!document.title.startsWith("(")`)
}

// TestExpiresUnderTheReviewersEyes: the row turns gray, the call can no longer be decided, and typed text is kept.
func TestExpiresUnderTheReviewersEyes(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 5m\n")
	shown, done := w.beginCall("record", 1, "a slow one")
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.openCall(shown)
	ada.Type("reason", "a long thought")
	browsertest.Eval[bool](ada.Page, `(new MutationObserver(() => { window.wasGray ||= document.querySelector("#rows > li.gone") !== null; })
		.observe(document.body, { subtree: true, childList: true, attributes: true }), true)`)
	w.moveClock("4 minutes 52 seconds") // eight seconds are left
	ada.WaitText("decision", "Expired")
	ada.WaitGone("decide")
	ada.WaitFor("the row to be gray, for some seconds", `window.wasGray`)
	if kept := ada.fieldValue("[data-testid=draft]"); kept != "a long thought" {
		t.Errorf("kept %q", kept)
	}
	wantTold(t, done, `"expired"`)
	w.wantSent(1, "")
	w.checkDecided(shown.CallID, "expired")
}

// TestSomebodyElseDecides: a reviewer with the call open sees the other reviewer's decision and keeps the typed text.
func TestSomebodyElseDecides(t *testing.T) {
	t.Parallel()
	w := newJourney(t, "approval_timeout: 1h\n")
	shown := w.parkCall("record", 1, "for two")
	ada, ben := w.openReviewer(t, "ada", browsertest.Options{}), w.openReviewer(t, "ben", browsertest.Options{})
	ada.openCall(shown)
	ada.Type("reason", "looks good to me")
	ben.openCall(shown)
	ben.Type("reason", "it does not")
	ben.Click("reject")
	ben.WaitText("decision", "it does not")
	ada.WaitText("decision", "Rejected by ben")
	ada.WaitGone("decide")
	if kept := ada.fieldValue("[data-testid=draft]"); kept != "looks good to me" {
		t.Errorf("kept %q", kept)
	}
	ada.WaitFor("the title to count nothing", `!document.title.startsWith("(")`)
	w.wantSent(1, "")
	w.checkDecided(shown.CallID, "rejected")
}

// signOut ends all sessions of a person, as an operator.
func (w *journey) signOut(name string) {
	w.t.Helper()
	var people struct {
		Items []struct{ ID, Name string }
	}
	if err := operatorAPI(w.p).Do(w.t.Context(), http.MethodGet, "people?limit=200", nil, &people); err != nil {
		w.t.Fatal(err)
	}
	for _, person := range people.Items {
		if person.Name == name {
			if err := operatorAPI(w.p).Do(w.t.Context(), http.MethodPost, "people/"+person.ID+"/sign-out", struct{}{}, nil); err != nil {
				w.t.Fatal(err)
			}
			return
		}
	}
	w.t.Fatalf("nobody is called %s", name)
}

// awaitEnd waits until a call has ended with the status.
func (w *journey) awaitEnd(a holdpoint.Approval, status string) {
	w.t.Helper()
	eventually.Succeeds(w.t, patience, "call "+a.CallID, func() error {
		c, err := operatorAPI(w.p).Call(w.t.Context(), a.CallID)
		if err == nil {
			err = hasStatus(status)(c)
		}
		return err
	})
}

package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestClaimsInTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana, ben := w.signedIn("ana", identity.Reviewer), w.signedIn("ben", identity.Reviewer)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"two"}`)
	if a := ana.post(callPath(first)+"/claim", nil); a.header.Get("Location") != callPath(first) {
		t.Fatalf("claim: %d %s", a.status, a.text())
	}
	if got := ben.get("/").find("holder").Text(); strings.TrimSpace(got) != "ana is on it" {
		t.Errorf("the row says %q", got)
	}
	page := ben.get(callPath(first))
	if got := strings.TrimSpace(page.find("holder").Text()); got != "ana is on it" || page.find("approve").Length() != 1 {
		t.Errorf("the call says %q, and has %d buttons to approve", got, page.find("approve").Length())
	}
	ben.post(callPath(first)+"/release", nil)
	if ben.get("/").find("holder").Length() != 0 {
		t.Error("the call is not released")
	}
	var option string
	for _, o := range ben.get(callPath(first)).find("assignee").Find("option").EachIter() {
		if o.Text() == "ana" {
			option = o.AttrOr("value", "")
		}
		if o.Text() == "ben" {
			t.Error("ben can assign ben")
		}
	}
	ben.post(callPath(first)+"/assign", url.Values{"person": {option}})
	if got := strings.Join(rowOrder(ana.get("/?mine=1")), " "); got != "one" {
		t.Errorf("ana's calls: %s", got)
	}
	if got := rowOrder(ben.get("/?mine=1")); len(got) != 0 {
		t.Errorf("ben's calls: %s", got)
	}
	if got := strings.TrimSpace(ana.get("/").find("holder").Text()); got != "assigned to ana" {
		t.Errorf("the row says %q", got)
	}
	if a := ben.post(callPath(first)+"/assign", url.Values{"person": {""}}); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("comment-error").Text(), "Choose a reviewer") {
		t.Errorf("assigned to nobody: %d %s", a.status, a.find("comment-error").Text())
	}
}

func TestCommentsOnTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana := w.signedIn("ana", identity.Reviewer)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	comment := func(text string) *answer {
		return ana.post(callPath(id)+"/comments", url.Values{"comment": {text}})
	}
	if a := comment("ask \u202eRita <b>first</b>"); a.status != http.StatusSeeOther {
		t.Fatalf("comment: %d %s", a.status, a.text())
	}
	shown := w.signedIn("olga", identity.Operator).get(callPath(id)).find("comment-shown")
	if text := shown.Text(); !strings.Contains(text, "ana") || !strings.Contains(text, "U+202E") || !strings.Contains(text, "<b>first</b>") || shown.Find("time").Length() != 1 {
		t.Errorf("the comment is shown as %q", text)
	}
	long := strings.Repeat("é", 2001)
	if a := comment(long); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("comment-error").Text(), "at most 2,000") || a.find("comment").Text() != long {
		t.Errorf("a long comment: %d %s", a.status, a.find("comment-error").Text())
	}
	if a := comment(strings.Repeat("word ", 399)); a.status != http.StatusSeeOther { // many words are shown whole
		t.Fatalf("comment: %d", a.status)
	}
	if n := strings.Count(ana.get(callPath(id)).find("comment-shown").Last().Text(), "word"); n != 399 {
		t.Errorf("%d of 399 words are shown", n)
	}
	// Comments are for reviewers of the past too.
	ana.post(callPath(id)+"/reject", ana.get(callPath(id)).form("decide"))
	if n := ana.get(callPath(id)).find("comment-shown").Length(); n != 2 {
		t.Errorf("%d comments after the decision", n)
	}
}

func TestClaimAndCommentByKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	p := w.signInWith(browsertest.Options{})
	p.WaitText("queue", "one")
	ready(p)
	p.Press("j")
	p.Wait("teamwork")
	p.WaitFor("keys to work", armed)
	p.Press("m")
	p.WaitText("row", "ana is on it")
	p.WaitText("teamwork", "ana is on it")
	p.WaitFor("keys to work", armed)
	p.Press("m")
	p.WaitGone("holder")
	p.WaitFor("keys to work", armed)
	p.Press("n")
	p.Press("ask Rita")
	// Another reviewer's claim shows the call again, and keeps the text.
	w.signedIn("ben", identity.Reviewer).post(browsertest.Eval[string](p, `document.querySelector("#call").dataset.url`)+"/claim", nil)
	p.WaitText("teamwork", "ben is on it")
	if text := browsertest.Eval[string](p, `document.querySelector("#comment").value`); text != "ask Rita" {
		t.Errorf("the comment is %q", text)
	}
	p.WaitFor("buttons to work", armed)
	p.ClickOn("#comment")
	p.PressCtrlEnter()
	p.WaitText("comment-shown", "ask Rita")
	if path := p.Path(); path != "/" {
		t.Errorf("the comment led to %s", path)
	}
	p.WaitFor("an empty field", `document.querySelector("#comment").value === ""`)
	p.Screenshot("teamwork")
	p.ClickOn("#queue-title")
	p.Press("?")
	p.WaitText("keys", "Claim or release the call")
	noComplaints(t, p)
}

package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// A value is common if all calls have it with equal bytes, anywhere in the arguments.
func TestSideBySideSharesOnlyWhatAllHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a","all":1,"two":2,"swap":"x","paws":"y"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"all":1,"filename":"b","two":2,"swap":"y","paws":"x"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"c","swap":"x","paws":"y","all":1}`)
	page := v.get(callPath(first) + "/like")
	names := func(within string) string {
		return strings.Join(strings.Fields(page.doc.Find(within+" dt bdi").Text()), " ")
	}
	if got := names(".part:not(form)"); got != "all" {
		t.Errorf("all have %q", got)
	}
	if got := names("[data-testid=alike-row]"); got != "filenametwoswappawsfilenametwoswappawsfilenameswappaws" {
		t.Errorf("what differs: %q", got)
	}
}

// A form decides at most as many calls as a page shows.
func TestSideBySideDecidesNoMoreThanAPageShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	var ids []uuid.UUID
	for i := range 52 {
		ids = append(ids, w.submit(uuid.Nil, "files__save_csv", fmt.Sprintf(`{"filename":"%d"}`, i)))
	}
	page := v.get(callPath(ids[0]) + "/like")
	form := page.form("like-form")
	form["call"] = nil
	for _, id := range ids {
		form.Add("call", id.String())
		form.Set("verdict."+id.String(), "reject")
		form.Set("digest."+id.String(), w.approval(id).Digest.String())
	}
	a := v.post(callPath(ids[51])+"/like", form)
	if a.status != http.StatusConflict || !strings.Contains(a.text(), "At most 50 calls") || !strings.Contains(a.text(), "0 approved, 50 rejected") {
		t.Errorf("%d: %s", a.status, a.find("notice").Text())
	}
	if w.approval(ids[51]).Status != approval.Pending {
		t.Error("the last one was decided")
	}
}

// Each call's secrets follow the definition that it was made with.
func TestSideBySideHidesByEachCallsDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offer(`{"name":"note","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"word":{"type":"string"}}}}`)
	v := w.signedIn("ana", identity.Reviewer)
	before := w.submit(uuid.Nil, "gallery__note", `{"text":"first","word":"quetzal"}`)
	w.source.Lock()
	w.source.Tools[0] = `{"name":"note","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"word":{"type":"string","writeOnly":true}}}}`
	w.source.Unlock()
	w.discovery.ListChanged(w.skillOf(before))
	after := w.submit(uuid.Nil, "gallery__note", `{"text":"second","word":"quetzal"}`)
	other := w.submit(uuid.Nil, "gallery__note", `{"text":"third","word":"yggdrasil"}`)
	for _, id := range []uuid.UUID{before, after, other} {
		page := v.get(callPath(id) + "/like")
		if n := page.find("alike-row").Length(); n != 3 {
			t.Fatalf("%d side by side: %s", n, page.text())
		}
		if text := page.text(); strings.Contains(text, "yggdrasil") || strings.Count(text, "quetzal") != 1 || page.find("hidden").Length() != 2 {
			t.Errorf("seen from %s: %s", id, text)
		}
	}
}

func (w *world) skillOf(id uuid.UUID) uuid.UUID {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	return waiting.Call.SkillID
}

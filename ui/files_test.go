package ui_test

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/file"
)

// uploaded uploads a file of the agent, without a principal.
func (w *world) uploaded(name, contentType, content string) uuid.UUID {
	w.t.Helper()
	p, err := w.files.Presign(w.t.Context(), file.Owner{AgentID: w.agent.ID}, file.Announcement{
		Filename: name, ContentType: contentType, Size: int64(len(content)),
	})
	check(w.t, err)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, p.UploadURL, strings.NewReader(content))
	check(w.t, err)
	response, err := w.server.Client().Do(r)
	check(w.t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		w.t.Fatalf("upload: %d", response.StatusCode)
	}
	return p.File.ID
}

func TestReviewersSeeAndOpenWhatIsAttached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	const content = "<script>alert(1)</script>"
	html := w.uploaded("<b>a\u202efdp.html", "text/html", content)
	other := w.uploaded("b.txt", "text/plain", "b")
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"x","attachments":[{"file_id":"`+html.String()+`"},{"file_id":"`+other.String()+`"}]}`)
	page := v.get(callPath(id))
	shown := page.find("file")
	if shown.Length() != 2 {
		t.Fatalf("%d files are shown", shown.Length())
	}
	first := shown.First()
	for _, want := range []string{"<b>a", "U+202E", "text/html", "25 bytes"} {
		if !strings.Contains(first.Text(), want) {
			t.Errorf("%q is not shown: %s", want, first.Text())
		}
	}
	c, err := w.calls.Get(t.Context(), call.Viewer{}, id)
	check(t, err)
	if sum := hex.EncodeToString(c.Files[0].SHA256[:]); !strings.Contains(first.Text(), sum) {
		t.Errorf("%s is not shown: %s", sum, first.Text())
	}
	if strings.Contains(page.body, "\u202e") || first.Find("dt b").Length() > 0 {
		t.Error("a name became markup, or what it hides is in the page")
	}
	link, _ := first.Find("a").Attr("href")
	got := v.get(link)
	if got.status != http.StatusOK || got.body != content {
		t.Errorf("download: %d %s", got.status, got.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html", "X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store",
		"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	if !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment; ") {
		t.Errorf("disposition: %q", got.header.Get("Content-Disposition"))
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: id, Action: "call.file_opened"})
	check(t, err)
	if len(events) != 1 {
		t.Errorf("events: %v", events)
	}
	if got := v.get(callPath(id) + "/files/" + uuid.NewString()); got.status != http.StatusNotFound {
		t.Errorf("another file: %d", got.status)
	}

	// Files that the reviewer removes are shown as removed.
	var members map[string]json.RawMessage
	check(t, json.Unmarshal(c.Arguments, &members))
	var elements []json.RawMessage
	check(t, json.Unmarshal(members["attachments"], &elements))
	waiting, err := w.calls.GetApproval(t.Context(), id)
	check(t, err)
	_, err = w.calls.Decide(t.Context(), call.Decision{
		CallID: id, Approve: true, Digest: waiting.Approval.Digest.String(), By: uuid.New(),
		Arguments: json.RawMessage(`{"filename":"x","attachments":[` + string(elements[1]) + `]}`),
	})
	check(t, err)
	if shown = v.get(callPath(id)).find("file"); !strings.Contains(shown.First().Text(), "left out") || strings.Contains(shown.Last().Text(), "left out") {
		t.Errorf("files: %s", shown.Text())
	}
}

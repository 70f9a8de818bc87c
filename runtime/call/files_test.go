package call_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// uploadFile uploads a file for the agent, without a principal.
func (w *world) uploadFile(content string) uuid.UUID {
	w.t.Helper()
	p, err := w.files.Presign(w.t.Context(), file.Owner{AgentID: w.agent.ID}, file.Announcement{
		Filename: "invoice.pdf", ContentType: "application/pdf", Size: int64(len(content)),
	})
	check(w.t, err)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, p.UploadURL, bytes.NewReader([]byte(content)))
	check(w.t, err)
	response, err := w.downloads.Client().Do(r)
	check(w.t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		w.t.Fatalf("upload: %d", response.StatusCode)
	}
	return p.File.ID
}

func attachmentArguments(n string, ids ...uuid.UUID) string {
	elements := make([]string, len(ids))
	for i, id := range ids {
		elements[i] = `{"file_id":"` + id.String() + `"}`
	}
	return `{"n":` + n + `,"attachments":[` + strings.Join(elements, ",") + `]}`
}

// attachedURLs returns the URLs of a call's attachments.
func attachedURLs(t testing.TB, arguments json.RawMessage) []string {
	t.Helper()
	var a struct {
		Attachments []struct {
			URL string `json:"url"`
		} `json:"attachments"`
	}
	check(t, json.Unmarshal(arguments, &a))
	var list []string
	for _, e := range a.Attachments {
		list = append(list, e.URL)
	}
	return list
}

func download(url string) (status int, body string) {
	response, err := (&http.Client{}).Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// downloadAll makes the server answer with the content of the attachments.
func downloadAll(r tool.CallRequest) (tool.Result, error) {
	var a struct {
		Attachments []struct {
			URL string `json:"url"`
		} `json:"attachments"`
	}
	if err := json.Unmarshal(r.Arguments, &a); err != nil {
		return tool.Result{}, err
	}
	var text strings.Builder
	for _, e := range a.Attachments {
		_, body := download(e.URL)
		text.WriteString(body + ";")
	}
	quoted, err := json.Marshal(text.String())
	return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":` + string(quoted) + `}]}`)}, err
}

func TestServerDownloadsWhatIsAttachedOnceTheCallIsApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Answer(downloadAll)
	one, two := w.uploadFile("first"), w.uploadFile("second")
	ticket := w.submit("files__write", attachmentArguments("1", one, two))
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	c := waiting.Call
	if loaded, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID); err != nil || string(loaded.AgentArguments()) != attachmentArguments("1", one, two) {
		t.Errorf("agent arguments: %s, %v", loaded.AgentArguments(), err)
	}
	if len(c.Files) != 2 || c.Files[0].FileID != one || c.Files[1].FileID != two || c.Files[0].Filename != "invoice.pdf" ||
		hex.EncodeToString(c.Files[0].SHA256[:]) != "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e" {
		t.Errorf("files: %+v", c.Files)
	}
	list := attachedURLs(t, c.Arguments)
	for _, url := range list {
		if status, _ := download(url); status != http.StatusNotFound {
			t.Errorf("before the decision: %d", status)
		}
	}
	// A repeat is the same call, although its URLs would differ.
	if again := w.submit("files__write", attachmentArguments("1", one, two)); again.ID != ticket.ID || !again.Attached {
		t.Errorf("repeat: %+v", again)
	}
	check(t, w.decide(ticket.ID, true))
	done := w.waitForEnd(ticket.ID)
	if done.Status != call.Succeeded || !strings.Contains(string(done.Result), `"first;second;"`) {
		t.Errorf("call %s: %s %s", done.Status, done.Message, done.Result)
	}
	w.db.MoveClock("59 minutes")
	if status, body := download(list[0]); status != http.StatusOK || body != "first" {
		t.Errorf("before the URL expires: %d", status)
	}
	w.db.MoveClock("61 minutes")
	if status, _ := download(list[0]); status != http.StatusNotFound {
		t.Errorf("after the URL expired: %d", status)
	}
}

func TestUndecidedCallsHandOutNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.uploadFile("content")
	end := map[string]func(uuid.UUID) error{
		"rejected": func(id uuid.UUID) error { return w.decide(id, false) },
		"cancelled": func(id uuid.UUID) error {
			_, err := w.calls.Cancel(t.Context(), call.Viewer{}, w.reviewer, id)
			return err
		},
		"expired": func(id uuid.UUID) error {
			w.db.MoveClock("2 minutes")
			return w.calls.Expire(t.Context(), id)
		},
	}
	for _, want := range []string{"rejected", "cancelled", "expired"} {
		ticket := w.submit("files__write", attachmentArguments("1", id))
		c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		check(t, end[want](ticket.ID))
		if done := w.waitForEnd(ticket.ID); string(done.Status) != want {
			t.Errorf("%s: %s", want, done.Status)
		}
		check(t, w.calls.MarkDelivered(t.Context(), ticket.ID))
		if status, _ := download(attachedURLs(t, c.Arguments)[0]); status != http.StatusNotFound {
			t.Errorf("%s: %d", want, status)
		}
	}
}

func TestChangedFileIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(object string) error{
		"changed": func(object string) error { return os.WriteFile(object, []byte("CONTENT"), 0o600) },
		"gone":    os.Remove,
	} {
		id := w.uploadFile("content")
		ticket := w.submit("files__write", attachmentArguments("1", id))
		entries, err := filepath.Glob(filepath.Join(w.folder, id.String()+"-*"))
		check(t, err)
		check(t, change(entries[0]))
		check(t, w.decide(ticket.ID, true))
		done := w.waitForEnd(ticket.ID)
		if done.Status != call.Denied || done.Code != call.CodeFileChanged {
			t.Errorf("%s: %s %s", name, done.Status, done.Code)
		}
	}
	if sent := w.source.Arguments(); len(sent) > 0 {
		t.Errorf("sent: %q", sent)
	}
}

func TestReviewersDropAttachmentsButAddNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Answer(downloadAll)
	one, two := w.uploadFile("first"), w.uploadFile("second")
	ticket := w.submit("files__write", attachmentArguments("1", one, two))
	c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
	check(t, err)
	list := attachedURLs(t, c.Arguments)
	for _, edited := range []string{
		strings.Replace(string(c.Arguments), list[0], "http://evil.example/", 1),
		strings.Replace(string(c.Arguments), one.String(), two.String(), 1),
		attachmentArguments("2", two),
	} {
		_, err := w.approveWith(ticket.ID, edited)
		if refused, ok := errors.AsType[*call.EditError](err); !ok || !strings.Contains(refused.Error(), "/attachments/0") {
			t.Errorf("%s: %v", edited, err)
		}
	}
	var members map[string]json.RawMessage
	check(t, json.Unmarshal(c.Arguments, &members))
	var elements []json.RawMessage
	check(t, json.Unmarshal(members["attachments"], &elements))
	_, err = w.approveWith(ticket.ID, `{"n":2,"attachments":[`+string(elements[1])+`]}`)
	check(t, err)
	done := w.waitForEnd(ticket.ID)
	if done.Status != call.Succeeded || !strings.Contains(string(done.Result), `"second;"`) || len(done.Files) != 2 {
		t.Errorf("call %s %s: %s", done.Status, done.Message, done.Result)
	}
}

func TestAutoApprovedCallsHaveFilesToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Answer(downloadAll)
	ticket := w.submit("open__echo", attachmentArguments("1", w.uploadFile("content")))
	if done := w.waitForEnd(ticket.ID); done.Status != call.Succeeded || !strings.Contains(string(done.Result), `"content;"`) {
		t.Errorf("call %s: %s", done.Status, done.Result)
	}
}

// A call whose server refused it keeps its files while it waits, and a repeat is found by the agent's arguments.
func TestWaitingForAConnectionClosesFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := make(chan []string, 1)
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		w.source.Require(notConnected)
		sent <- attachedURLs(t, r.Arguments)
		return tool.Result{}, &tool.Failure{
			Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "401", Connect: &tool.Connect{Reason: "connect it"},
		}
	})
	id := w.uploadFile("content")
	ticket := w.submit("open__echo", attachmentArguments("1", id))
	list := <-sent
	w.waitForStatus(ticket.ID, call.NeedsConnection)
	if status, _ := download(list[0]); status != http.StatusNotFound {
		t.Errorf("while the call waits: %d", status)
	}
	if again := w.submit("open__echo", attachmentArguments("1", id)); again.ID != ticket.ID || !again.Attached {
		t.Errorf("repeat: %+v", again)
	}
}

func TestMissingFilesMakeNoCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.calls.Submit(t.Context(), w.newSubmission("files__write", attachmentArguments("1", uuid.New())))
	if refused, ok := errors.AsType[*file.AttachmentError](err); !ok || refused.Pointer != "/attachments/0/file_id" {
		t.Errorf("submit: %v", err)
	}
	found, err := w.history().Search(t.Context(), history.Filter{})
	check(t, err)
	if len(found.Calls) > 0 {
		t.Errorf("calls: %+v", found.Calls)
	}
	// A call that ends at submission keeps no files.
	id := w.uploadFile("content")
	ticket := w.submit("files__write", `{"attachments":[{"file_id":"`+id.String()+`"}]}`)
	if done := w.waitForEnd(ticket.ID); done.Status != call.Invalid || strings.Contains(string(done.Arguments), "url") || len(done.Files) > 0 {
		t.Errorf("call %s with %s", done.Status, done.Arguments)
	}
	check(t, w.files.Delete(t.Context(), audit.System(), file.Owner{AgentID: w.agent.ID}, id))
}

// The content of a file goes by age before the call, or while the call is recorded.
func TestDeletedContentMakesNoCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept, id := w.uploadFile("kept"), w.uploadFile("content")
	submit := func(when string) {
		t.Helper()
		_, err := w.calls.Submit(t.Context(), w.newSubmission("files__write", attachmentArguments("1", kept, id)))
		refused, ok := errors.AsType[*file.AttachmentError](err)
		if !ok || refused.Pointer != "/attachments/1/file_id" || !strings.Contains(refused.Expected, id.String()) || !strings.Contains(refused.Expected, "upload the file again") {
			t.Errorf("%s: %v", when, err)
		}
		if n := w.db.Count("calls"); n != 0 {
			t.Errorf("%s: %d calls", when, n)
		}
	}
	deleteContent := `UPDATE files SET object = '', content_deleted_at = holdpoint_now() WHERE id = '` + id.String() + `'`
	w.db.Exec(`CREATE FUNCTION delete_content() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + deleteContent + `; RETURN NEW; END $$`)
	w.db.Exec(`CREATE TRIGGER delete_content BEFORE INSERT ON calls FOR EACH ROW EXECUTE FUNCTION delete_content()`)
	submit("while the call is recorded")
	w.db.Exec(`DROP FUNCTION delete_content CASCADE`)
	w.db.Exec(deleteContent)
	submit("before the call")
}

func TestOpeningAFileIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.uploadFile("content")
	ticket := w.submit("files__write", attachmentArguments("1", id))
	ctx := context.WithoutCancel(t.Context())
	opened, err := w.calls.OpenFile(ctx, call.Viewer{}, audit.Person(w.reviewer), ticket.ID, id)
	check(t, err)
	if opened.FileID != id || w.db.Count(`audit_events WHERE action = 'call.file_opened' AND data ? 'sha256' AND NOT data ? 'filename'`) != 1 {
		t.Errorf("opened %+v; %s", opened, w.db.Actions(ticket.ID))
	}
	for name, try := range map[string]func() error{
		"another agent": func() error {
			_, err := w.calls.OpenFile(ctx, call.Viewer{AgentID: uuid.New()}, audit.System(), ticket.ID, id)
			return err
		},
		"another file": func() error {
			_, err := w.calls.OpenFile(ctx, call.Viewer{}, audit.System(), ticket.ID, w.uploadFile("x"))
			return err
		},
	} {
		if err := try(); !errors.Is(err, call.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := w.history().Search(ctx, history.Filter{})
	check(t, err)
	if len(list.Calls) != 1 || !slices.ContainsFunc(list.Calls[0].Files, func(a file.Attached) bool { return a.FileID == id }) {
		t.Errorf("listed: %+v", list.Calls)
	}
}

// If an agent deletes a file while it submits a call with it, the call fails at once and delays no other.
func TestFileIsDeletedWhileACallIsMadeWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.uploadFile("content")
	for _, name := range []string{"files__write", "open__echo"} {
		if name == "open__echo" {
			id = w.uploadFile("content")
		}
		tx, err := w.db.Pool().Begin(t.Context())
		check(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		_, err = tx.Exec(t.Context(), `DELETE FROM files WHERE id = $1`, id)
		check(t, err)
		sub, made := w.newSubmission(name, attachmentArguments("1", id)), make(chan error, 1)
		go func() {
			_, err := w.calls.Submit(t.Context(), sub)
			made <- err
		}()
		w.waitForBlocked(1)
		check(t, tx.Commit(t.Context()))
		var refused *file.AttachmentError
		if err := <-made; !errors.As(err, &refused) || refused.Pointer != "/attachments/0/file_id" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// waitForBlocked waits until n statements of this database wait for a lock.
func (w *world) waitForBlocked(n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for {
		var waiting int
		check(w.t, w.db.Pool().QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`).Scan(&waiting))
		if waiting >= n {
			return
		}
	}
}

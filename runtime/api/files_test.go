package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
)

const noteUpload = `{"filename":"note.html","content_type":"text/html","size":7}`

// upload puts content to the URL of an announcement.
func (w *world) upload(presigned map[string]any, content string) {
	w.t.Helper()
	url, _ := presigned["upload_url"].(string)
	path, ok := strings.CutPrefix(url, "https://holdpoint.test")
	if !ok {
		w.t.Fatalf("upload URL %q", url)
	}
	r := w.send(http.MethodPut, path, "", "")
	if r.status != http.StatusUnprocessableEntity { // nothing was sent
		w.t.Fatalf("upload of nothing: %d", r.status)
	}
	if got := w.sendRaw(path, content, "text/html"); got.status != http.StatusCreated {
		w.t.Fatalf("upload: %d %s", got.status, got.body)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	presigned := w.post("files/presign-upload", w.key, noteUpload).wantStatus(t, 201)
	headers, _ := presigned["headers"].(map[string]any)
	if presigned["method"] != "PUT" || headers["Content-Type"] != "text/html" || presigned["expires_at"] == nil || presigned["max_bytes"] == nil {
		t.Errorf("presigned: %v", presigned)
	}
	id, _ := presigned["file_id"].(string)
	if f := w.get("files/"+id, w.key).wantStatus(t, 200); f["uploaded_at"] != nil || f["sha256"] != nil {
		t.Errorf("announced: %v", f)
	}
	w.upload(presigned, "<b>hi!\n")
	sum := sha256.Sum256([]byte("<b>hi!\n"))
	if f := w.get("files/"+id, w.key).wantStatus(t, 200); f["uploaded_at"] == nil || f["sha256"] != hex.EncodeToString(sum[:]) {
		t.Errorf("uploaded: %v", f)
	}

	callID := w.parkCall(`{"attachments":[{"file_id":"` + id + `"}]}`)
	for _, path := range []string{"calls/" + callID.String(), "approvals/" + callID.String()} {
		files, _ := w.get(path, w.reviewer).wantStatus(t, 200)["files"].([]any)
		if len(files) != 1 {
			t.Fatalf("%s: files %v", path, files)
		}
		if f, _ := files[0].(map[string]any); f["file_id"] != id || f["filename"] != "note.html" || f["content_type"] != "text/html" ||
			f["sha256"] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %v", path, f)
		}
	}
	got := w.get("calls/"+callID.String()+"/files/"+id, w.reviewer)
	if got.status != 200 || got.body != "<b>hi!\n" || got.header.Get("Content-Disposition") != "attachment; filename=note.html" ||
		got.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(got.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("download: %d %v %s", got.status, got.header, got.body)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: callID, Action: "call.file_opened"})
	check(t, err)
	if len(events) != 1 || events[0].Actor.ID != w.personID(w.reviewer) {
		t.Errorf("events: %v", events)
	}
	w.get("calls/"+callID.String()+"/files/"+uuid.NewString(), w.reviewer).wantProblem(t, 404, "not_found")
	w.get("calls/"+callID.String()+"/files/"+id, w.newKey("other")).wantProblem(t, 404, "not_found")
	w.send("DELETE", "/api/v1/files/"+id, w.key, "").wantProblem(t, 409, "state_conflict")
}

// A file exists only for the agent and the person that it acts for.
func TestFilesAreTheirOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := func(token, body string) string {
		id, _ := w.post("files/presign-upload", token, body).wantStatus(t, 201)["file_id"].(string)
		return id
	}
	const asBilling = `{"agent":"billing","filename":"a","content_type":"text/plain","size":1}`
	agents, olgas := mine(w.key, noteUpload), mine(w.operator, asBilling)
	for name, c := range map[string]struct{ id, token string }{
		"another agent": {agents, w.newKey("other")}, "a person": {agents, w.operator}, "the agent on nobody's behalf": {olgas, w.key},
		"another person": {olgas, w.reviewer}, "nobody's": {uuid.NewString(), w.key}, "no id": {"x", w.key},
	} {
		w.get("files/"+c.id, c.token).wantProblem(t, 404, "not_found")
		w.send("DELETE", "/api/v1/files/"+c.id, c.token, "").wantProblem(t, 404, "not_found")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	w.get("files/"+olgas, w.operator).wantStatus(t, 200)
	w.send("DELETE", "/api/v1/files/"+olgas, w.operator, "").wantStatus(t, 204)
	w.get("files/"+olgas, w.operator).wantProblem(t, 404, "not_found")
	w.post("files/presign-upload", w.operator, noteUpload).wantProblem(t, 422, "invalid_request")
	w.post("files/presign-upload", w.key, strings.Replace(noteUpload, "{", `{"agent":"other",`, 1)).wantProblem(t, 404, "not_found")
	w.post("files/presign-upload", w.operator, strings.Replace(asBilling, "billing", "other", 1)).wantProblem(t, 404, "not_found")
}

func TestPresignRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, want := range map[string]int{
		`{"filename":"../a","content_type":"text/plain","size":1}`:            422,
		`{"filename":"a","content_type":"text","size":1}`:                     422,
		`{"filename":"a","content_type":"text/plain","size":-1}`:              422,
		`{"filename":"a","content_type":"text/plain","size":1,"sha256":"x"}`:  422,
		`{"filename":"a","content_type":"text/plain"}`:                        422,
		`{"filename":"a\u0000","content_type":"text/plain","size":1}`:         422,
		`{"filename":"a","content_type":"text/plain\r\nX: y","size":1}`:       422,
		`{"filename":"a","content_type":"text/plain","size":1001}`:            413,
		`{"filename":"a","content_type":"text/plain","size":1,"owner":"bob"}`: 422,
	} {
		got := w.post("files/presign-upload", w.key, body)
		code := map[int]string{422: "invalid_request", 413: "too_large"}[want]
		got.wantProblem(t, want, code)
	}
	w.files.Types = []string{"image/*"}
	w.post("files/presign-upload", w.key, noteUpload).wantProblem(t, 415, "unsupported_type")
}

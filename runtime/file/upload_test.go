package file_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/file"
)

func TestUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const content = "twelve bytes"
	p := w.presign(file.Announcement{Filename: "naïve \"q\".txt", ContentType: "Text/Plain; charset=utf-8", Size: 12, SHA256: sumOf(content)})
	if p.File.ContentType != "text/plain; charset=utf-8" || !strings.HasPrefix(p.UploadURL, w.server.URL+"/files/upload/") {
		t.Errorf("presigned: %+v", p)
	}
	got := w.put(p.UploadURL, content, "Content-Type", "text/plain")
	if got.status != http.StatusCreated || !strings.Contains(got.body, sumOf(content)) || !strings.Contains(got.body, p.File.ID.String()) {
		t.Fatalf("upload: %d %s", got.status, got.body)
	}
	f, err := w.files.Get(t.Context(), w.owner, p.File.ID)
	check(t, err)
	if f.UploadedAt == nil || f.Filename != "naïve \"q\".txt" {
		t.Errorf("file: %+v", f)
	}
	if again := w.put(p.UploadURL, content); again.status != http.StatusConflict {
		t.Errorf("second upload: %d", again.status)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: p.File.ID})
	check(t, err)
	if len(events) != 1 || events[0].Action != "file.uploaded" {
		t.Errorf("events: %v", events)
	}
}

// A refused upload leaves nothing in the store, and may be repeated.
func TestUploadRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const content = "twelve bytes"
	p := w.presign(file.Announcement{Filename: "a", ContentType: "text/plain", Size: 12, SHA256: sumOf(content)})
	chunked := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text)) } // of unknown length
	for name, c := range map[string]struct {
		body   io.Reader
		header []string
		status int
	}{
		"longer":           {bytes.NewReader([]byte(content + "!")), nil, http.StatusRequestEntityTooLarge},
		"longer, chunked":  {chunked(content + strings.Repeat("!", 1<<20)), nil, http.StatusRequestEntityTooLarge},
		"shorter":          {bytes.NewReader([]byte("short")), nil, http.StatusUnprocessableEntity},
		"shorter, chunked": {chunked("short"), nil, http.StatusUnprocessableEntity},
		"empty":            {http.NoBody, nil, http.StatusUnprocessableEntity},
		"other content":    {bytes.NewReader([]byte("twelve Bytes")), nil, http.StatusUnprocessableEntity},
		"other type":       {bytes.NewReader([]byte(content)), []string{"Content-Type", "text/html"}, http.StatusUnsupportedMediaType},
		"no type":          {bytes.NewReader([]byte(content)), []string{"Content-Type", "what?"}, http.StatusUnsupportedMediaType},
		"encoded":          {bytes.NewReader([]byte(content)), []string{"Content-Encoding", "gzip"}, http.StatusUnsupportedMediaType},
	} {
		if got := w.do(http.MethodPut, p.UploadURL, c.body, c.header...); got.status != c.status ||
			got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d", name, got.status, got.body, c.status)
		}
	}
	if left := w.listObjects(); len(left) > 0 || w.db.Count("file_objects") > 0 {
		t.Errorf("left in the store: %v, noted: %d", left, w.db.Count("file_objects"))
	}
	for _, capability := range []string{"", "x", strings.Repeat("A", 26), p.File.ID.String()} {
		if got := w.put(w.server.URL+"/files/upload/"+capability, content); got.status != http.StatusNotFound {
			t.Errorf("capability %q: %d", capability, got.status)
		}
	}
	if got := w.do(http.MethodPut, p.UploadURL, chunked(content)); got.status != http.StatusCreated {
		t.Errorf("after all, chunked: %d %s", got.status, got.body)
	}
}

func TestUploadTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.presign(newAnnouncement("late"))
	if until := p.ExpiresAt.Sub(p.File.CreatedAt); until > 15*time.Minute || until < 14*time.Minute {
		t.Errorf("lifetime: %v", until)
	}
	w.db.MoveClock("16 minutes")
	if got := w.put(p.UploadURL, "late"); got.status != http.StatusNotFound {
		t.Errorf("upload after its time: %d", got.status)
	}
}

// One of several concurrent uploads becomes the file. The others leave nothing.
func TestUploadsRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.presign(newAnnouncement("content 0"))
	const uploads = 8
	statuses := make([]int, uploads)
	var begun, ended sync.WaitGroup
	begun.Add(uploads)
	for i := range uploads {
		ended.Go(func() {
			// Each body ends only after all have begun.
			reader, writer := io.Pipe()
			go func() {
				_, _ = writer.Write([]byte("content "))
				begun.Done()
				begun.Wait()
				_, _ = writer.Write([]byte{byte('0' + i)})
				writer.Close()
			}()
			statuses[i] = w.do(http.MethodPut, p.UploadURL, reader).status
		})
	}
	ended.Wait()
	created := -1
	for i, status := range statuses {
		switch {
		case status == http.StatusCreated && created < 0:
			created = i
		case status != http.StatusConflict:
			t.Errorf("upload %d: %d", i, status)
		}
	}
	if created < 0 {
		t.Fatal("no upload took")
	}
	f, err := w.files.Get(t.Context(), w.owner, p.File.ID)
	check(t, err)
	if want := sumOf("content " + string(byte('0'+created))); sumHex(f.SHA256) != want {
		t.Errorf("SHA-256 %x, want that of upload %d", f.SHA256, created)
	}
	if left := w.listObjects(); len(left) != 1 || w.db.Count("file_objects") != 1 {
		t.Errorf("in the store: %v, noted: %d", left, w.db.Count("file_objects"))
	}
}

func TestAnnouncementsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *file.Config) { c.MaxSize, c.Types = 100, []string{"text/plain", "image/*"} })
	ok := file.Announcement{Filename: "a.txt", ContentType: "text/plain", Size: 1}
	for name, c := range map[string]struct {
		change func(*file.Announcement)
		field  string
		reason file.Reason
	}{
		"no name":      {func(a *file.Announcement) { a.Filename = "" }, "filename", file.Invalid},
		"path":         {func(a *file.Announcement) { a.Filename = "../../etc/passwd" }, "filename", file.Invalid},
		"parent":       {func(a *file.Announcement) { a.Filename = ".." }, "filename", file.Invalid},
		"backslashes":  {func(a *file.Announcement) { a.Filename = `..\x` }, "filename", file.Invalid},
		"line break":   {func(a *file.Announcement) { a.Filename = "a\r\nSet-Cookie: x=1" }, "filename", file.Invalid},
		"NUL":          {func(a *file.Announcement) { a.Filename = "a\x00" }, "filename", file.Invalid},
		"C1":           {func(a *file.Announcement) { a.Filename = "a\u0085b" }, "filename", file.Invalid},
		"not UTF-8":    {func(a *file.Announcement) { a.Filename = "a\xff" }, "filename", file.Invalid},
		"long name":    {func(a *file.Announcement) { a.Filename = strings.Repeat("x", 256) }, "filename", file.Invalid},
		"no type":      {func(a *file.Announcement) { a.ContentType = "" }, "content_type", file.Invalid},
		"half a type":  {func(a *file.Announcement) { a.ContentType = "text" }, "content_type", file.Invalid},
		"broken type":  {func(a *file.Announcement) { a.ContentType = "text/plain\r\nX-Evil: 1" }, "content_type", file.Invalid},
		"hidden break": {func(a *file.Announcement) { a.ContentType = "text/plain; a=\"b\r\nc\"" }, "content_type", file.Invalid},
		"other type":   {func(a *file.Announcement) { a.ContentType = "text/html" }, "content_type", file.WrongType},
		"negative":     {func(a *file.Announcement) { a.Size = -1 }, "size", file.Invalid},
		"too large":    {func(a *file.Announcement) { a.Size = 101 }, "size", file.TooLarge},
		"bad sum":      {func(a *file.Announcement) { a.SHA256 = "abc" }, "sha256", file.Invalid},
	} {
		a := ok
		c.change(&a)
		_, err := w.files.Presign(t.Context(), w.owner, a)
		refused, is := errors.AsType[*file.RefusedError](err)
		if !is || refused.Field != c.field || refused.Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, contentType := range []string{"text/plain", "image/png"} {
		a := ok
		a.ContentType = contentType
		w.presign(a)
	}
}

// An agent cannot fill the store with unattached files.
func TestTooMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.db.Pool().Exec(t.Context(), `INSERT INTO files (id, agent_id, filename, content_type, size, upload_hash, upload_until)
		SELECT gen_random_uuid(), $1, 'x', 'text/plain', 1, sha256(n::text::bytea), holdpoint_now() FROM generate_series(1, 500) AS n`, w.owner.AgentID)
	check(t, err)
	if _, err := w.files.Presign(t.Context(), w.owner, newAnnouncement("x")); !errors.Is(err, file.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	w.owner.AgentID = uuid.New()
	w.presign(newAnnouncement("x"))
}

func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept := w.uploadFile(newAnnouncement(""), "kept")
	unused := w.uploadFile(newAnnouncement(""), "unused")
	expired := w.presign(newAnnouncement("expired")).File.ID
	w.attach(uuid.New(), `{}`, `{"attachments":[{"file_id":"`+kept.String()+`"}]}`)
	_, err := w.db.Pool().Exec(t.Context(), `INSERT INTO file_objects (object, file_id) VALUES ('broken-off', $1)`, unused)
	check(t, err)
	there := func(id uuid.UUID) bool {
		_, err := w.files.Get(t.Context(), w.owner, id)
		if err != nil && !errors.Is(err, file.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	check(t, w.files.Sweep(t.Context()))
	if !there(kept) || !there(unused) || !there(expired) || w.db.Count("file_objects") != 3 {
		t.Error("swept too early")
	}
	w.db.MoveClock("50 minutes")
	check(t, w.files.Sweep(t.Context()))
	if !there(kept) || !there(unused) || there(expired) || w.db.Count("file_objects") != 3 {
		t.Error("after 50 minutes: want only the missing upload deleted")
	}
	w.db.MoveClock("70 minutes")
	check(t, w.files.Sweep(t.Context()))
	if w.db.Count("file_objects") != 2 {
		t.Errorf("after 70 minutes: %d objects, want the interrupted upload deleted", w.db.Count("file_objects"))
	}
	w.db.MoveClock("25 hours")
	check(t, w.files.Sweep(t.Context()))
	if !there(kept) || there(unused) || w.db.Count("file_objects") != 1 || len(w.listObjects()) != 1 {
		t.Errorf("after a day: %v", w.listObjects())
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	by := audit.Agent(w.owner.AgentID)
	kept, other := w.uploadFile(newAnnouncement(""), "kept"), w.uploadFile(newAnnouncement(""), "other")
	w.attach(uuid.New(), `{}`, `{"attachments":[{"file_id":"`+kept.String()+`"}]}`)
	if err := w.files.Delete(t.Context(), by, w.owner, kept); !errors.Is(err, file.ErrAttached) {
		t.Errorf("attached: %v", err)
	}
	if err := w.files.Delete(t.Context(), by, file.Owner{AgentID: uuid.New()}, other); !errors.Is(err, file.ErrNotFound) {
		t.Errorf("another agent's file: %v", err)
	}
	check(t, w.files.Delete(t.Context(), by, w.owner, other))
	if err := w.files.Delete(t.Context(), by, w.owner, other); !errors.Is(err, file.ErrNotFound) || len(w.listObjects()) != 1 {
		t.Errorf("deleted: %v, %v", err, w.listObjects())
	}
}

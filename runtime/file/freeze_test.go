package file_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/file"
)

func sumHex(sum []byte) string { return hex.EncodeToString(sum) }

func TestFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, callID := w.uploadFile(newAnnouncement(""), "content"), uuid.New()
	const before, after = `{"n":9007199254740993.10,"\u0061":"\u003c\/","attachments":`, `,"z":[1,{"attachments":[{"file_id":"x"}]}]}`
	arguments := before + `[{"file_id":"` + id.String() + `","url":"http://evil.example/","caption":"\u003cb>"},` +
		`{"content_type":"text/html","filename":"b.html","file_id":"` + strings.ToUpper(id.String()) + `","size":1}]` + after
	frozen, files := w.attach(callID, `{}`, arguments)
	rest, ok := strings.CutPrefix(string(frozen), before)
	middle, found := strings.CutSuffix(rest, after)
	if !ok || !found {
		t.Fatalf("the rest changed: %s", frozen)
	}
	if !strings.Contains(middle, `,"caption":"\u003cb>"}`) || strings.Contains(middle, "evil") {
		t.Errorf("the agent's arguments: %s", middle)
	}
	list := readElements(t, frozen)
	for i, want := range []element{
		{FileID: id, Filename: "note.txt", ContentType: "text/plain", Size: 7, SHA256: sumOf("content")},
		{FileID: id, Filename: "b.html", ContentType: "text/html", Size: 7, SHA256: sumOf("content")},
	} {
		prefix := w.server.URL + "/files/" + callID.String() + "/" + id.String() + "/"
		if !strings.HasPrefix(list[i].URL, prefix) || len(list[i].URL) < len(prefix)+26 {
			t.Errorf("%d: %s", i, list[i].URL)
		}
		url := list[i].URL
		if list[i].URL = ""; list[i] != want {
			t.Errorf("%d: %+v, want %+v", i, list[i], want)
		}
		list[i].URL = url
		if files[i].Filename != want.Filename || sumHex(files[i].SHA256[:]) != want.SHA256 {
			t.Errorf("%d: %+v", i, files[i])
		}
	}
	if list[0].URL == list[1].URL {
		t.Error("two attachments have one URL")
	}
	if _, again := w.attach(uuid.New(), `{}`, arguments); len(again) != 2 {
		t.Error("a file can be attached to more than one call")
	}
}

// Arguments without attachments stay the same.
func TestNotFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, arguments := range []string{
		`{}`, `{"attachments":[]}`, `{"attachments":{}}`, `{"attachments":null}`, `{"attachments":"x"}`, `{"attachments":["x"]}`,
		`{"attachments":[{}]}`, `{"attachments":[{"file_id":1}]}`, `{"attachments":[{"file_id":"x"},{}]}`,
		`{"a":{"attachments":[{"file_id":"x"}]}}`, `{"Attachments":[{"file_id":"x"}]}`,
	} {
		frozen, files := w.attach(uuid.New(), `{}`, arguments)
		if string(frozen) != arguments || len(files) > 0 {
			t.Errorf("%s became %s", arguments, frozen)
		}
	}
}

// An attachment gets only the members that the schema accepts.
func TestAcceptedMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.uploadFile(newAnnouncement(""), "content")
	arguments := `{"attachments":[{"file_id":"` + id.String() + `"}]}`
	const closed = `{"type":"object","additionalProperties":false,"properties":{"url":{},"filename":{}}}`
	for schema, want := range map[string]string{
		`{}`: "file_id filename content_type size sha256 url",
		`{"properties":{"attachments":{"items":{"properties":{"url":{}}}}}}`:                                    "file_id filename content_type size sha256 url",
		`{"properties":{"attachments":{"items":` + closed + `}}}`:                                               "filename url",
		`{"properties":{"attachments":{"anyOf":[{"type":"null"},{"items":` + closed + `}]}}}`:                   "filename url",
		`{"properties":{"attachments":{"items":{"$ref":"#/$defs/a~1b"}}},"$defs":{"a/b":` + closed + `}}`:       "filename url",
		`{"properties":{"attachments":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/x"}}}`:                "file_id filename content_type size sha256 url",
		`{"properties":{"attachments":{"items":{"additionalProperties":false}}}}`:                               "",
		`{"properties":{"attachments":{"items":{"additionalProperties":false,"properties":{"file_id":true}}}}}`: "file_id",
		`true`: "file_id filename content_type size sha256 url",
	} {
		frozen, files := w.attach(uuid.New(), schema, arguments)
		var got struct {
			Attachments []json.RawMessage `json:"attachments"`
		}
		check(t, json.Unmarshal(frozen, &got))
		var names []string
		decoder := json.NewDecoder(bytes.NewReader(got.Attachments[0]))
		for i := 0; decoder.More() || i == 0; i++ {
			token, err := decoder.Token()
			check(t, err)
			if name, ok := token.(string); ok && i%2 == 1 {
				names = append(names, name)
			}
		}
		if strings.Join(names, " ") != want || len(files) != 1 {
			t.Errorf("%s: %v", schema, names)
		}
	}
}

// An error names the attachment's member, and reveals nothing about others' files.
func TestFreezeRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *file.Config) { c.Types = []string{"text/plain"} })
	mine := w.uploadFile(newAnnouncement(""), "mine")
	announced := w.presign(newAnnouncement("x")).File.ID
	gone := w.uploadFile(newAnnouncement(""), "gone")
	for _, object := range w.listObjects() {
		if strings.HasPrefix(object, gone.String()) {
			check(t, os.Remove(filepath.Join(w.folder, object)))
		}
	}
	theirs := map[string]uuid.UUID{}
	me := w.owner
	for name, owner := range map[string]file.Owner{
		"another agent": {AgentID: uuid.New()}, "another principal": {AgentID: me.AgentID, PrincipalID: uuid.New()},
	} {
		w.owner = owner
		theirs[name] = w.uploadFile(newAnnouncement(""), "theirs")
	}
	w.owner = me
	refuse := func(attachments, pointer, expected string) string {
		t.Helper()
		_, _, err := w.files.Freeze(t.Context(), w.owner, uuid.New(), nil, json.RawMessage(`{"attachments":`+attachments+`}`))
		refused, ok := errors.AsType[*file.AttachmentError](err)
		if !ok || refused.Pointer != pointer || !strings.Contains(refused.Expected, expected) {
			t.Errorf("%s: %v", attachments, err)
			return ""
		}
		return refused.Expected
	}
	of := func(id any) string { return fmt.Sprintf(`{"file_id":"%v"}`, id) }
	missing := refuse("["+of(uuid.New())+"]", "/attachments/0/file_id", "must be the id of a file")
	for name, id := range theirs {
		if said := refuse("["+of(mine)+","+of(id)+"]", "/attachments/1/file_id", ""); said != missing {
			t.Errorf("%s: %q, but for a missing file: %q", name, said, missing)
		}
	}
	if said := refuse(`[{"file_id":"../x"}]`, "/attachments/0/file_id", ""); said != missing {
		t.Errorf("no id: %q", said)
	}
	refuse("["+of(announced)+"]", "/attachments/0/file_id", "uploaded")
	refuse("["+of(gone)+"]", "/attachments/0/file_id", "upload it again")
	refuse(`[{"file_id":"`+mine.String()+`","filename":1}]`, "/attachments/0/filename", "must be a string")
	refuse(`[{"file_id":"`+mine.String()+`","filename":"../a"}]`, "/attachments/0/filename", "without a path")
	refuse(`[{"file_id":"`+mine.String()+`","filename":"a\r\nb"}]`, "/attachments/0/filename", "without a path")
	refuse(`[{"file_id":"`+mine.String()+`","content_type":"a\r\nb"}]`, "/attachments/0/content_type", "media type")
	refuse(`[{"file_id":"`+mine.String()+`","content_type":"text/html"}]`, "/attachments/0/content_type", "must be one of text/plain")
	refuse("["+strings.Repeat(of(mine)+",", 20)+of(mine)+"]", "/attachments", "at most 20")
	w.files.MaxSize = 3
	refuse("["+of(mine)+"]", "/attachments/0/file_id", "at most 3 bytes")
}

func TestCheckEdit(t *testing.T) {
	t.Parallel()
	const before = `{"attachments":[{"file_id":"1","url":"u"},{"file_id":"2","url":"v"}],"x":1}`
	for after, ok := range map[string]bool{
		before: true,
		`{"attachments":[{"url":"v","file_id":"\u0032"}],"x":2}`: true,
		`{"attachments":[]}`: true,
		`{"x":1}`:            true,
		`{"attachments":[{"file_id":"1","url":"http://evil.example"}]}`: false,
		`{"attachments":[{"file_id":"1"}]}`:                             false,
		`{"attachments":[{"file_id":"3","url":"u"}]}`:                   false,
		`{"attachments":["http://evil.example"]}`:                       false,
		`{"attachments":{}}`:                                            false,
	} {
		err := file.CheckEdit(json.RawMessage(before), json.RawMessage(after), true)
		if (err == nil) != ok {
			t.Errorf("%s: %v", after, err)
		}
	}
	for after, ok := range map[string]bool{
		`{"attachments":["a.txt"]}`:                   true, // not one of our files
		`{"attachments":[{"file_id":"3","url":"u"}]}`: false,
	} {
		if err := file.CheckEdit(json.RawMessage(`{}`), json.RawMessage(after), false); (err == nil) != ok {
			t.Errorf("%s: %v", after, err)
		}
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := "<script>alert(1)</script>" + strings.Repeat("x", 200<<10)
	id := w.uploadFile(file.Announcement{Filename: "naïve \";.html", ContentType: "text/html; charset=utf-8"}, content)
	callID, other := uuid.New(), uuid.New()
	frozen, _ := w.attach(callID, `{}`, `{"attachments":[{"file_id":"`+id.String()+`"}]}`)
	_, _ = w.attach(other, `{}`, `{"attachments":[{"file_id":"`+id.String()+`"}]}`)
	url := readElements(t, frozen)[0].URL
	get := func(url string) answer { return w.do(http.MethodGet, url, nil) }
	if got := get(url); got.status != http.StatusNotFound {
		t.Errorf("before the claim: %d", got.status)
	}
	w.claim(callID, true)
	w.claim(other, true)
	got := get(url)
	if got.status != http.StatusOK || got.body != content {
		t.Fatalf("download: %d, %d bytes", got.status, len(got.body))
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Disposition": "attachment; filename*=utf-8''na%C3%AFve%20%22%3B.html",
		"X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-store", "Content-Length": "204825",
		"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q", name, got.header.Get(name))
		}
	}
	head := w.do(http.MethodHead, url, nil)
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != "204825" {
		t.Errorf("HEAD: %d, %v", head.status, head.header)
	}
	for name, changed := range map[string]string{
		"capability": url[:len(url)-1] + "!", "call": strings.Replace(url, callID.String(), other.String(), 1),
		"file": strings.Replace(url, id.String(), uuid.NewString(), 1), "no call": strings.Replace(url, callID.String(), "x", 1),
		"upload": strings.Replace(url, callID.String(), "upload", 1),
	} {
		if got := get(changed); got.status != http.StatusNotFound {
			t.Errorf("another %s: %d", name, got.status)
		}
	}
	w.claim(callID, false)
	if got := get(url); got.status != http.StatusNotFound {
		t.Errorf("after its time: %d", got.status)
	}
}

// Stored content is compared with the attached SHA-256 on each read.
func TestChangedContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := strings.Repeat("content ", 50<<10)
	id, callID := w.uploadFile(newAnnouncement(""), content), uuid.New()
	frozen, files := w.attach(callID, `{}`, `{"attachments":[{"file_id":"`+id.String()+`"}]}`)
	w.claim(callID, true)
	check(t, w.files.Verify(t.Context(), files))
	url, object := readElements(t, frozen)[0].URL, filepath.Join(w.folder, w.listObjects()[0])
	check(t, os.WriteFile(object, []byte("C"+content[1:]), 0o600))
	if err := w.files.Verify(t.Context(), files); !errors.Is(err, file.ErrChanged) {
		t.Errorf("changed: %v", err)
	}
	if got := w.do(http.MethodGet, url, nil); got.err == nil {
		t.Error("a changed file was sent whole")
	}
	check(t, os.WriteFile(object, []byte("short"), 0o600))
	if err := w.files.Verify(t.Context(), files); !errors.Is(err, file.ErrChanged) {
		t.Errorf("shorter: %v", err)
	}
	check(t, os.Remove(object))
	if err := w.files.Verify(t.Context(), files); !errors.Is(err, file.ErrChanged) {
		t.Errorf("gone: %v", err)
	}
	if got := w.do(http.MethodGet, url, nil); got.status != http.StatusGone {
		t.Errorf("gone: %d", got.status)
	}
}

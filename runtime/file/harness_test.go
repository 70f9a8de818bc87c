package file_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// world is a file service behind a server, with a folder as its store.
type world struct {
	t      *testing.T
	db     *worldtest.DB
	folder string
	files  *file.Service
	server *httptest.Server
	owner  file.Owner

	mu   sync.Mutex
	open map[uuid.UUID]bool // claimed calls
}

func newWorld(t *testing.T, change ...func(*file.Config)) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), folder: t.TempDir(), owner: file.Owner{AgentID: uuid.New()}, open: map[uuid.UUID]bool{}}
	mux := http.NewServeMux()
	w.server = httptest.NewServer(mux)
	cfg := file.Config{
		Pool: w.db.Pool(), Bucket: runtimetest.NewBucket(t, w.folder), PublicURL: w.server.URL, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Open: func(_ context.Context, id uuid.UUID) (bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.open[id], nil
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	w.files, err = file.New(cfg)
	check(t, err)
	w.files.Mount(mux)
	t.Cleanup(func() {
		w.server.Close()
		check(t, w.files.Close())
	})
	return w
}

func (w *world) claim(id uuid.UUID, yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[id] = yes
}

func newAnnouncement(content string) file.Announcement {
	return file.Announcement{Filename: "note.txt", ContentType: "text/plain", Size: int64(len(content))}
}

func (w *world) presign(a file.Announcement) file.Presigned {
	w.t.Helper()
	p, err := w.files.Presign(w.t.Context(), w.owner, a)
	check(w.t, err)
	return p
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // set if the body broke off
}

func (w *world) do(method, url string, body io.Reader, header ...string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, body)
	check(w.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := w.server.Client().Do(r)
	check(w.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text), err}
}

func (w *world) put(url, content string, header ...string) answer {
	w.t.Helper()
	return w.do(http.MethodPut, url, bytes.NewReader([]byte(content)), header...)
}

// uploadFile uploads a file with some content.
func (w *world) uploadFile(a file.Announcement, content string) uuid.UUID {
	w.t.Helper()
	a.Size = int64(len(content))
	p := w.presign(a)
	if got := w.put(p.UploadURL, content); got.status != http.StatusCreated {
		w.t.Fatalf("upload: %d %s", got.status, got.body)
	}
	return p.File.ID
}

// attach attaches the files of a call as package call does, and returns the arguments for its server.
func (w *world) attach(callID uuid.UUID, schema, arguments string) (json.RawMessage, []file.Attached) {
	w.t.Helper()
	frozen, files, err := w.files.Freeze(w.t.Context(), w.owner, callID, json.RawMessage(schema), json.RawMessage(arguments))
	check(w.t, err)
	if len(files) > 0 {
		check(w.t, postgres.InTx(w.t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
			return file.Record(w.t.Context(), tx, map[uuid.UUID][]file.Attached{callID: files})
		}))
	}
	return frozen, files
}

type element struct {
	FileID      uuid.UUID `json:"file_id"`
	Filename    string    `json:"filename"`
	ContentType string    `json:"content_type"`
	Size        int64     `json:"size"`
	SHA256      string    `json:"sha256"`
	URL         string    `json:"url"`
}

func readElements(t *testing.T, arguments json.RawMessage) []element {
	t.Helper()
	var a struct {
		Attachments []element `json:"attachments"`
	}
	check(t, json.Unmarshal(arguments, &a))
	return a.Attachments
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// listObjects lists the objects in the store.
func (w *world) listObjects() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.folder)
	check(w.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

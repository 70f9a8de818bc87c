package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

func TestSmoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("ana", identity.Reviewer)
	empty := v.get("/")
	if empty.status != http.StatusOK || empty.find("empty").Length() != 1 {
		t.Fatalf("%d %s", empty.status, empty.text())
	}
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"invoices","rows":[{"a":1}]}`)
	q := v.get("/")
	if q.find("row").Length() != 1 || !strings.Contains(q.text(), "files: save_csv") {
		t.Fatal(q.body)
	}
	c := v.get("/calls/" + id.String())
	if c.status != 200 {
		t.Fatal(c.body)
	}
	form := c.form("decide")
	form.Set("reason", "looks fine")
	if a := v.post("/calls/"+id.String()+"/approve", form); a.status != 303 {
		t.Fatal(a.status, a.text())
	}
}

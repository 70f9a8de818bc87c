package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// changeOf returns the part of the page that shows the changes by a call with this body.
func (w *world) changeOf(v *visitor, media, body, there string) *answer {
	w.t.Helper()
	w.there(http.StatusOK, there)
	id := w.submit(uuid.Nil, "shop__change_order", `{"order":"`+uuid.NewString()+`","media":"`+media+`","body":`+body+`}`)
	return v.get(callPath(id) + "/before")
}

// Removals and changes are shown, however their names are escaped.
func TestWhatACallChangesByEscapedNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	const there = `{"id":7,"settings":{"locked":true,"deep":{"limit":5,"kept":1}},"list":[{"a":1}]}`
	for _, tt := range []struct {
		name, body string
		want, not  []string
	}{
		{"at the top", `{"\u0069d":null}`, []string{`- "id": 7`}, nil},
		{"within an object", `{"settings":{"\u006cocked":null}}`, []string{`- "locked": true`, `"deep": {`}, []string{`- "deep"`}},
		{"deeper", `{"s\u0065ttings":{"de\u0065p":{"l\u0069mit":null}}}`, []string{`- "limit": 5`, `"kept": 1`}, []string{`- "kept"`, `- "locked"`}},
		{"another value", `{"settings":{"deep":{"\u006cimit":9}}}`, []string{`- "limit": 5`, `+ "limit": 9`}, nil},
		{"a list as a whole", `{"l\u0069st":[{"b":null}]}`, []string{`- "a": 1`, `+ "b": null`}, nil},
		{"what is new", `{"extra":{"a":null,"b":{"c":null,"d":1}},"id":{"e":null}}`, []string{`+ "d": 1`, `- "id": 7`}, []string{`"c"`, `"a": null`, `"e"`}},
	} {
		diff := strings.Join(strings.Fields(w.changeOf(v, "application/merge-patch+json", tt.body, there).find("diff").Text()), " ")
		for _, want := range tt.want {
			if !strings.Contains(diff, want) {
				t.Errorf("%s: the difference lacks %s: %s", tt.name, want, diff)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(diff, not) {
				t.Errorf("%s: the difference has %s: %s", tt.name, not, diff)
			}
		}
	}
}

// An object with a duplicate name has no diff, because servers differ in which value counts.
func TestWhatACallChangesWithoutOneMeaning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	for _, there := range []string{`{"note":"a","\u006eote":"b"}`, `{"note":"a","deep":{"x":1,"x":2}}`} {
		a := w.changeOf(v, "application/json", `{"note":"b"}`, there)
		if a.find("diff").Length() != 0 || a.find("before-ambiguous").Length() != 1 || !strings.Contains(a.find("before").Text(), "note") {
			t.Errorf("%s: %s", there, a.text())
		}
	}
	for name, there := range map[string]string{"cut short": `{"note":"a",`, "more than one": `{"note":"a"}{"note":"c"}`, "a list": `["note"]`} {
		a := w.changeOf(v, "application/json", `{"note":"b"}`, there)
		if a.find("diff").Length() != 0 || a.find("before-ambiguous").Length() != 0 || !strings.Contains(a.find("before").Text(), "note") {
			t.Errorf("%s: %s", name, a.text())
		}
	}
}

// Only JSON merge patch defines how it is merged. For other patches the page says that the server may differ.
func TestWhatACallLikelyChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withShop()
	v := w.signedIn("rita", identity.Reviewer)
	for media, likely := range map[string]int{"application/json": 1, "Application/JSON; charset=utf-8": 1, "application/merge-patch+json": 0} {
		a := w.changeOf(v, media, `{"extra":{"a":2}}`, `{"extra":{"a":1,"b":1}}`)
		if a.find("diff").Length() != 1 || a.find("before-likely").Length() != likely {
			t.Errorf("%s: %s", media, a.find("before").Text())
		}
	}
}

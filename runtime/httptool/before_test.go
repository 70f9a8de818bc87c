package httptool_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// updateBinding returns a PUT whose current state a GET reads.
func updateBinding() openapi.Binding {
	b := postBinding("/items/{id}", openapi.Body{Kind: openapi.BodyJSON, Media: "application/json", Fields: []openapi.Field{{Arg: "name", Name: "name"}}}, newParam("id", openapi.InPath))
	b.Method = http.MethodPut
	look := getBinding("/items/{id}", newParam("id", openapi.InPath))
	b.Preview = &look
	return b
}

func TestBefore(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte(`{"name":"old","token":"` + r.Header.Get("Authorization") + `"}`))
	})
	server := skillAt(a.URL)
	server.API = &tool.API{Preview: true, Auth: &tool.APIAuth{Type: tool.APIBearer}}
	server.AuthSecret = "bearer-secret"
	s := newSource(t, httptool.Config{})
	state, err := s.Before(t.Context(), server, newRequest(defineTool(t, updateBinding(), nil), `{"id":"a/b","name":"new"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.onlyRequest(t); got.method != http.MethodGet || got.uri != "/items/a%2Fb" || got.header.Get("Authorization") != "Bearer bearer-secret" || got.body != "" {
		t.Errorf("%+v", got)
	}
	if state.Status != 200 || state.Media != "application/json" || state.Cut || string(state.Body) != `{"name":"old","token":"Bearer …"}` || state.Request.Method != http.MethodGet ||
		strings.Contains(encodeJSON(t, state), "bearer-secret") {
		t.Errorf("%+v %s", state, state.Body)
	}
	server.API = &tool.API{}
	if state, err := s.Before(t.Context(), server, newRequest(defineTool(t, updateBinding(), nil), `{"id":1}`)); state != nil || err != nil {
		t.Errorf("not wanted: %+v, %v", state, err)
	}
	server.API.Preview = true
	if state, err := s.Before(t.Context(), server, newRequest(defineTool(t, getBinding("/x"), nil), `{}`)); state != nil || err != nil {
		t.Errorf("no way to: %+v, %v", state, err)
	}
}

// TestBeforeIsBounded: reading the state is limited in bytes and to the origin, and a failure has no effect.
func TestBeforeIsBounded(t *testing.T) {
	t.Parallel()
	other := newAPI(t, nil)
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/items/long":
			_, _ = w.Write([]byte(strings.Repeat("x", 100<<10)))
		case "/items/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/items/gone":
			w.WriteHeader(http.StatusNotFound)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	server := skillAt(a.URL)
	server.API = &tool.API{Preview: true}
	s := newSource(t, httptool.Config{TrustedHosts: []string{"127.0.0.1"}})
	for id, want := range map[string]tool.State{"long": {Status: 200, Cut: true}, "away": {Status: 302}, "gone": {Status: 404}} {
		state, err := s.Before(t.Context(), server, newRequest(defineTool(t, updateBinding(), nil), `{"id":"`+id+`"}`))
		if err != nil || state.Status != want.Status || state.Cut != want.Cut || len(state.Body) > 64<<10 {
			t.Errorf("%s: %+v, %v", id, state, err)
		}
	}
	if len(other.requests()) != 0 {
		t.Error("the preview was sent to another server")
	}
	for _, arguments := range []string{`{"id":"broken"}`, `{"id":".."}`} {
		_, err := s.Before(t.Context(), server, newRequest(defineTool(t, updateBinding(), nil), arguments))
		if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Effect != tool.EffectNone {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	writes := updateBinding()
	writes.Preview.Method = http.MethodDelete
	if _, err := s.Before(t.Context(), server, newRequest(defineTool(t, writes, nil), `{"id":"gone"}`)); err == nil {
		t.Error("a preview that writes was sent")
	}
}

package httptool_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/httptool"
)

// The encoding of forms and parts in a document determines the request.
func TestEncodings(t *testing.T) {
	t.Parallel()
	const base64 = `{"type": "string", "contentEncoding": "base64"}`
	d := defineOne(t, `"post": {"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {
		"address": {"type": "object", "properties": {"street": {"type": "string"}, "place": {"type": "object"}}}, "tags": {"type": "array", "items": {"type": "string"}},
		"lines": {"type": "array", "items": {"type": "object"}}, "name": {"type": "string"}, "filter": {"type": "object"}, "spread": {"type": "object"}}},
		"encoding": {"filter": {"style": "deepObject", "explode": true}, "spread": {"explode": true}}}}}}`)
	api := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	source := newSource(t, httptool.Config{})
	callTool(t, source, skillAt(api.URL), d, `{"id":"1","address":{"street":"s","place":{"zip":1}},"tags":["a","b"],"lines":[{"n":1.0},[2]],"name":"n","filter":{"k":"v"},"spread":{"x":"y"}}`)
	got, err := url.ParseQuery(api.requests()[0].body)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"address": {`{"street":"s","place":{"zip":1}}`}, "tags": {"a", "b"}, "lines": {`{"n":1.0}`, "[2]"}, "name": {"n"}, "filter[k]": {"v"}, "x": {"y"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	d = defineOne(t, `"post": {"requestBody": {"content": {"multipart/form-data": {"schema": {"type": "object", "properties": {
		"text": `+base64+`, "texts": {"type": "array", "items": `+base64+`}, "file": {}}}}}}}`)
	callTool(t, source, skillAt(api.URL), d, `{"id": "1", "text": "AAE=", "texts": ["/w==", "/g=="], "file": "AAE="}`)
	sent := api.requests()[1]
	r := &http.Request{Method: http.MethodPost, Header: sent.header, Body: readCloser(sent.body)}
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		t.Fatal(err)
	}
	// Text is sent unchanged, a file as decoded bytes.
	if diff := cmp.Diff(map[string][]string{"text": {"AAE="}, "texts": {"/w==", "/g=="}}, r.MultipartForm.Value); diff != "" {
		t.Error(diff)
	}
	if files := r.MultipartForm.File["file"]; len(files) != 1 || files[0].Size != 2 || len(r.MultipartForm.File) != 1 {
		t.Errorf("%+v", r.MultipartForm.File)
	}
}

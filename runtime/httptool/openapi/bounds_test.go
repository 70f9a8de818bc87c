package openapi_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Variables of a server's URL are expanded once.
func TestServerThatMultiplies(t *testing.T) {
	t.Parallel()
	text := strings.Replace(pets, `{"url": "https://pets.example/v1"}`,
		`{"url": "https://pets.example/`+strings.Repeat("{a}", 40)+`", "variables": {"a": {"default": "{a}{a}"}}}`, 1)
	source, server := openDocument(t, text)
	server.URL = ""
	listing, err := source.List(t.Context(), server)
	if err == nil && len(listing.Tools) > 0 {
		if b := readBinding(t, listing.Tools[0]); len(b.Base) > 2048 {
			t.Errorf("a base of %d bytes", len(b.Base))
		}
	}
}

// An escaped star in a pattern matches a star.
func TestFilterWithAStar(t *testing.T) {
	t.Parallel()
	source, server := openDocument(t, strings.ReplaceAll(strings.ReplaceAll(pets, "pets/get", "*"), "pets/update", "update"))
	server.API.Include = []tool.OperationFilter{{OperationID: setting.EscapePattern("*")}}
	listing, err := source.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 1 {
		t.Errorf("%d tools, %v, want the one named *", len(listing.Tools), err)
	}
}

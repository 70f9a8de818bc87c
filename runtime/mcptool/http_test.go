package mcptool_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
)

func TestListAndCallOverHTTP(t *testing.T) {
	t.Parallel()
	for name, options := range eras() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, mcptool.Config{})
			server := httpSkill(serve(t, echoServer(), options).URL)
			listing, err := s.List(t.Context(), server)
			if err != nil {
				t.Fatal(err)
			}
			if len(listing.Tools) != 1 || listing.Tools[0].Name != "echo" {
				t.Errorf("tools %v", listing.Tools)
			}
			if want := name[:10]; listing.ProtocolVersion != want {
				t.Errorf("version %s, want %s", listing.ProtocolVersion, want)
			}
			if got := textOf(t, call(t, s, server, "echo", `{"a":1}`)); got != `{"a":1}` {
				t.Errorf("echo %s", got)
			}
		})
	}
}

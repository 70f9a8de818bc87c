package mcptool_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestListAndCallOverHTTP(t *testing.T) {
	t.Parallel()
	for name, options := range listEras() {
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
			if got := textOf(t, callTool(t, s, server, "echo", `{"a":1}`)); got != `{"a":1}` {
				t.Errorf("echo %s", got)
			}
		})
	}
}

// Results and failures carry the call's duration and the sizes of request and answer.
func TestCallsAreMeasured(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{})
	server := httpSkill(serve(t, echoServer(), listEras()["2025-11-25 JSON"]).URL)
	result := callTool(t, s, server, "echo", `{"a":1}`)
	e := result.Exchange
	if e.Status != 0 || e.Sent != 7 || e.Received != int64(len(result.Raw)) || len(e.Steps) != 1 || e.Steps[0].Name != "call" || e.Steps[0].Took <= 0 {
		t.Errorf("measures of a result: %+v", e)
	}
	_, err := s.Call(t.Context(), server, tool.CallRequest{CallID: uuid.New(), Tool: "nothing", Arguments: json.RawMessage(`{}`)})
	failure, ok := errors.AsType[*tool.Failure](err)
	if !ok || failure.Kind != tool.JSONRPCError || failure.Exchange.Sent != 2 || len(failure.Exchange.Steps) != 1 {
		t.Errorf("measures of a JSON-RPC error: %+v", failure)
	}
	_, err = s.Call(t.Context(), httpSkill("http://127.0.0.1:1/mcp"), tool.CallRequest{CallID: uuid.New(), Tool: "echo", Arguments: json.RawMessage(`{}`)})
	if failure, ok = errors.AsType[*tool.Failure](err); !ok || failure.Exchange.Sent != 0 || len(failure.Exchange.Steps) != 1 {
		t.Errorf("measures of an unsent call: %+v", failure)
	}
}

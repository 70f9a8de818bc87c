package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// zoneSource is a complete [tool.Source]. Its one tool returns the hour in a time zone. A real source opens a connection to server.URL and
// keeps it for later calls.
type zoneSource struct{ now time.Time }

// List returns the tools of the server. Their pins come from ParseDefinition.
func (zoneSource) List(context.Context, tool.Server) (tool.Listing, error) {
	hour, err := tool.ParseDefinition(json.RawMessage(
		`{"name":"hour","inputSchema":{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"]}}`))
	if err != nil {
		return tool.Listing{}, &tool.Failure{Kind: tool.ProtocolFailure, Effect: tool.EffectNone, Message: err.Error(), Err: err}
	}
	return tool.Listing{Tools: []tool.Definition{hour}}, nil
}

// Call executes a call at most once. A tool that refuses answers with an error result. Any other error is a *Failure, whose Effect says
// whether the server may have acted.
func (s zoneSource) Call(ctx context.Context, _ tool.Server, request tool.CallRequest) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, tool.Ended(ctx, tool.EffectNone, request.Tool)
	}
	var arguments struct{ Zone string }
	err := json.Unmarshal(request.Arguments, &arguments)
	var zone *time.Location
	if err == nil {
		zone, err = time.LoadLocation(arguments.Zone)
	}
	if err != nil {
		return tool.Result{IsError: true, Raw: json.RawMessage(`{"content":[{"type":"text","text":"unknown zone"}],"isError":true}`)}, nil //nolint:nilerr // the agent gets the error as a result
	}
	text := fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}]}`, s.now.In(zone).Hour())
	return tool.Result{Raw: json.RawMessage(text)}, nil
}

// Probe reports each step of a new connection.
func (s zoneSource) Probe(ctx context.Context, server tool.Server, step func(tool.Step)) error {
	listing, err := s.List(ctx, server)
	step(tool.Step{Name: "tools/list", Detail: fmt.Sprintf("%d tools", len(listing.Tools)), Err: err})
	return err
}

// Ready returns the action of a person that the server needs first. This one needs none.
func (zoneSource) Ready(context.Context, tool.Server) (*tool.Connect, error) { return nil, nil }

// Forget closes the connections of a skill. There are none.
func (zoneSource) Forget(uuid.UUID) {}

// Arguments are validated before a source gets them.
func ExampleSource() {
	var source tool.Source = zoneSource{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	ctx, server := context.Background(), tool.Server{Skill: "zones"}

	listing, err := source.List(ctx, server)
	if err != nil {
		panic(err)
	}
	hour := listing.Tools[0]
	schemas, err := tool.CompileSchemas(hour)
	if err != nil {
		panic(err)
	}
	problems, err := schemas.ValidateInput(ctx, json.RawMessage(`{"zone":7}`))
	fmt.Println(problems, err)

	for _, arguments := range []string{`{"zone":"UTC"}`, `{"zone":"Mars"}`} {
		result, err := source.Call(ctx, server, tool.CallRequest{Tool: hour.Name, Arguments: json.RawMessage(arguments), Definition: &hour})
		fmt.Println(string(result.Raw), err)
	}

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = source.Call(ended, server, tool.CallRequest{Tool: hour.Name})
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		fmt.Println(failure, failure.Effect)
	}
	// Output:
	// [/zone: got number, want string] <nil>
	// {"content":[{"type":"text","text":"12"}]} <nil>
	// {"content":[{"type":"text","text":"unknown zone"}],"isError":true} <nil>
	// transport: hour: stopped before an answer came none
}

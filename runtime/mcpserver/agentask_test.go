package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

// A question that an agent cannot answer gets a reason, not an internal error.
func TestQuestionsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{
			fault.Invalid("message", "must not be empty"),
			`"code":-32602,"message":"/params/arguments/message: must not be empty","data":{"pointer":"/params/arguments/message"}`,
		},
		{mcpserver.ErrNoModel, `"code":"no_model"`},
		{fmt.Errorf("%w: 6 in a row", mcpserver.ErrDepth), `"code":"too_deep"`},
		{call.ErrKeyReused, `"code":-32602`},
		{errors.New("secret"), `"code":-32603,"message":"internal error `},
	} {
		b := newBench(t, func(cfg *mcpserver.Config) {
			cfg.Ask = func(context.Context, mcpserver.Question) (call.Ticket, error) { return call.Ticket{}, test.err }
		})
		own := newCatalog(t, echoTool)
		own.Entries[0].SkillID = agent.BuiltinSkill
		b.agents.relist(catalog.NewCatalog(own.Entries))
		if got := b.post(callBody("1", "echo", "{}")); !strings.Contains(got.body, test.want) || strings.Contains(got.body, "secret") {
			t.Errorf("%v: %s, want %s", test.err, got.body, test.want)
		}
	}
}

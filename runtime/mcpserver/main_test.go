package mcpserver_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
)

func TestMain(m *testing.M) {
	// After a body that is too large, net/http lingers for half a second.
	ignored := []goleak.Option{
		goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"),
	}
	goleak.VerifyTestMain(leaktest.Patient(m, ignored...), ignored...)
}

// The services implement the interfaces of the endpoint.
var (
	_ mcpserver.Calls    = (*call.Service)(nil)
	_ mcpserver.Agents   = (*agent.Service)(nil)
	_ mcpserver.Catalog  = (*catalog.Service)(nil)
	_ mcpserver.Identity = (*identity.Service)(nil)
)

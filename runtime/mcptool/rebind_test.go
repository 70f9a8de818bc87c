package mcptool_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// If a host was public when its skill was registered, requests do not reach a private address of it unless the server
// is trusted.
func TestHostThatTurnedPrivate(t *testing.T) {
	t.Parallel()
	upstream := &script{session: "s1"}
	h := httptest.NewServer(upstream)
	t.Cleanup(func() { closeServer(h) })
	skill := httpSkill(strings.Replace(h.URL, "127.0.0.1", "LocalHost", 1))
	callTool(t, newSource(t, mcptool.Config{}), skill, "echo", `{}`)
	skill.PublicHosts = []string{"localhost"}
	before := upstream.countRequests("tools/call")
	_, err := newSource(t, mcptool.Config{}).Call(t.Context(), skill, tool.CallRequest{Tool: "echo"})
	if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Effect != tool.EffectNone || !strings.Contains(f.Message, "--trusted-hosts") {
		t.Errorf("an untrusted host: %v", err)
	}
	if n := upstream.countRequests("tools/call") - before; n != 0 {
		t.Errorf("%d calls arrived", n)
	}
	callTool(t, newSource(t, mcptool.Config{TrustedHosts: []string{"localhost"}}), skill, "echo", `{}`)
}

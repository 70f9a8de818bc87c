package tool_test

import (
	"slices"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestTakesTokens(t *testing.T) {
	for _, test := range []struct {
		name      string
		transport tool.Transport
		url       string
		headers   []string
		want      bool
	}{
		{"by HTTP", tool.HTTP, "https://skill.test/mcp", []string{"X-Tenant"}, true},
		{"a program", tool.Stdio, "", nil, false},
		{"a header of its own", tool.HTTP, "https://skill.test/mcp", []string{"X-Tenant", "authorization"}, false},
		{"a user in the URL", tool.HTTP, "https://user:password@skill.test/mcp", nil, false},
		{"no URL", tool.HTTP, "https://skill.test:port/", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := tool.TakesTokens(test.transport, test.url, slices.Values(test.headers)); got != test.want {
				t.Errorf("TakesTokens(%s, %q, %q) = %t, want %t", test.transport, test.url, test.headers, got, test.want)
			}
		})
	}
}

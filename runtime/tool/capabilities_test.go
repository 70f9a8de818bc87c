package tool_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestOffers(t *testing.T) {
	t.Parallel()
	legacy := tool.Capabilities{ProtocolVersion: "2025-11-25", Resources: true, ResourcesSubscribe: true, Logging: true}
	stateless := tool.Capabilities{ProtocolVersion: "2026-07-28", Resources: true, ResourcesSubscribe: true, Logging: true, Tasks: true}
	tests := map[string]struct {
		legacy, stateless bool
	}{
		"resources/list":           {true, true},
		"resources/templates/list": {true, true},
		"resources/read":           {true, true},
		"resources/subscribe":      {true, false},
		"resources/unsubscribe":    {true, false},
		"logging/setLevel":         {true, false},
		"prompts/list":             {false, false},
		"prompts/get":              {false, false},
		"completion/complete":      {false, false},
		"tools/list":               {false, false},
		"tasks/get":                {false, true},
		"ping":                     {true, true},
		"vendor/own":               {true, true},
	}
	for method, want := range tests {
		if got := legacy.Offers(method); got != want.legacy {
			t.Errorf("2025-11-25: %s: %t", method, got)
		}
		if got := stateless.Offers(method); got != want.stateless {
			t.Errorf("2026-07-28: %s: %t", method, got)
		}
	}
}

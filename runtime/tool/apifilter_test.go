package tool_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestFilterLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]tool.OperationFilter{
		"list*": {OperationID: "list*"}, "tag=a b , method=GET": {Tag: "a b", Method: "GET"}, "path=/x/**,operation_id=y": {Path: "/x/**", OperationID: "y"},
	} {
		got, err := tool.ParseFilter(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := tool.ParseFilter(got.String()); err != nil || again != want {
			t.Errorf("%q is written as %q, which is read as %+v, %v", text, got.String(), again, err)
		}
	}
	for _, text := range []string{"", " ", "tags=a", "tag=", "tag=a,", "tag=a,b"} {
		if got, err := tool.ParseFilter(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

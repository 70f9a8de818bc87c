package setting_test

import (
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestFilterLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]tool.OperationFilter{
		"list*": {OperationID: "list*"}, "tag=a b , method=GET": {Tag: "a b", Method: "GET"}, "path=/x/**,operation_id=y": {Path: "/x/**", OperationID: "y"},
		"tag=Orders, returns,method=GET": {Tag: "Orders, returns", Method: "GET"}, "path=/points/{lat},{lon}": {Path: "/points/{lat},{lon}"},
	} {
		got, err := setting.ParseFilter(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := setting.ParseFilter(setting.FormatFilter(got)); err != nil || again != want {
			t.Errorf("%q is written as %q, which is read as %+v, %v", text, setting.FormatFilter(got), again, err)
		}
	}
	for _, text := range []string{"", " ", "tags=a", "tag="} {
		if got, err := setting.ParseFilter(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

// The filter of one operation matches no other, whatever its name.
func TestFilterOfOneOperation(t *testing.T) {
	t.Parallel()
	found := setting.Examination{Operations: []setting.Operation{
		{OperationID: "list", Method: "GET", Path: "/a"},
		{OperationID: "*", Method: "GET", Path: "/b"},
		{Method: "GET", Path: "/c/*"},
		{OperationID: "twice", Method: "GET", Path: "/d"},
		{OperationID: "twice", Method: "DELETE", Path: "/d"},
	}}
	want := []tool.OperationFilter{
		{OperationID: "list"}, {OperationID: `\*`}, {Method: "GET", Path: `/c/\*`}, {Method: "GET", Path: "/d"}, {Method: "DELETE", Path: "/d"},
	}
	for i := range want {
		if got := found.FilterOf(&found.Operations[i]); got != want[i] {
			t.Errorf("%+v: %+v, want %+v", found.Operations[i], got, want[i])
		}
	}
}

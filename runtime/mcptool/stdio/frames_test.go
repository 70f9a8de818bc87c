package stdio_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/mcptool/stdio"
)

func TestLongLinesAreKnownByTheirID(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", 200)
	for line, id := range map[string]string{
		`{"jsonrpc":"2.0","id":1001,"result":"` + pad + `"}`:                         "1001",
		`{"result":{"id":5,"a":["` + pad + `",{"id":6}]},"jsonrpc":"2.0","id":1002}`: "1002",
		`{"result":"\",\"id\":7,\"` + pad + `\\","id" : 1003 , "jsonrpc":"2.0"}`:     "1003",
		`{"` + pad + `":"id","id":"s"}`:                                              `"s"`,
		`{"result":"` + pad + `"}`:                                                   "",
		pad + pad:                                                                    "",
		`[{"id":1,"result":"` + pad + `"}]`:                                          "",
		`}}}}{"id":3,"` + pad:                                                        "",
		`{"id":` + strings.Repeat("9", 300) + `}`:                                    strings.Repeat("9", 64),
		`{"method":"id","params":"` + pad + `","id":null}`:                           "null",
	} {
		got := stdio.ReadLines(strings.NewReader("a\n\n"+line+"\nb\r\n"), 100)
		if len(got) != 3 || got[0].Text != "a" || got[2].Text != "b" || !got[1].TooLarge || got[1].ID != id {
			t.Errorf("%.60s: %+v, want id %q", line, got, id)
		}
	}
}

func FuzzLongLines(f *testing.F) {
	f.Add(`{"a":{"id":1},"id":2,"b":"\\\"id\":3"}`)
	f.Fuzz(func(t *testing.T, line string) {
		var object struct {
			ID json.RawMessage `json:"id"`
		}
		var members map[string]json.RawMessage
		if strings.ContainsAny(line, "\r\n") || json.Unmarshal([]byte(line), &members) != nil || json.Unmarshal([]byte(line), &object) != nil || strings.Contains(line, `\u`) {
			t.Skip()
		}
		want := string(members["id"])
		if want == "" || want[0] == '{' || want[0] == '[' || len(want) > 64 || strings.Count(line, "id") > 1 {
			t.Skip()
		}
		got := stdio.ReadLines(strings.NewReader(line+"\n"), 2)
		if len(got) == 1 && got[0].TooLarge && got[0].ID != want {
			t.Errorf("id %q, want %q", got[0].ID, want)
		}
	})
}

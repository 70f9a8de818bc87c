package rawjson_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

func ExampleMembers() {
	text := []byte(`{"id": 9007199254740993, "n\u0061me": "a\/b"}`)
	for m, err := range rawjson.Members(text) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s at %d\n", m.Name(), m.Value, m.Start())
	}
	// Output:
	// id 9007199254740993 at 7
	// name "a\/b" at 38
}

// readMembers renders the members that were read, then the error.
func readMembers(text string, options ...jsontext.Options) (string, error) {
	var all strings.Builder
	for m, err := range rawjson.Members([]byte(text), options...) {
		if err != nil {
			return all.String(), err
		}
		fmt.Fprintf(&all, "%s %s=%s;", m.Key, m.Name(), m.Value)
		if text[m.Start():m.End] != string(m.Value) {
			return all.String(), errors.New("value is at another place")
		}
	}
	return all.String(), nil
}

func TestMembers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                              "",
		" { } \n":                         "",
		`{"a":1,"b":[{"c":2}],"d":{}}`:    `"a" a=1;"b" b=[{"c":2}];"d" d={};`,
		`{ "a" : 1.50 , "b" : "\u0062" }`: `"a" a=1.50;"b" b="\u0062";`,
		`{"\u0061\"":null}`:               `"\u0061\"" a"=null;`,
	} {
		if got, err := readMembers(text); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestTextsThatAreNoObjects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`[]`, `"{}"`, `1`, `null`, ` true`} {
		if _, err := readMembers(text); !errors.Is(err, rawjson.ErrNotObject) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{} {}`, `{"a":1}]`, `{},`, `{}x`} {
		if _, err := readMembers(text, rawjson.Lenient()); !errors.Is(err, rawjson.ErrTrailing) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{``, ` `, `{`, `{"a":1`, `{"a"`, `{"a":`, `{"a":1,`, `{"a":1,}`, `{1:2}`, `{"a" 1}`, `[`, `{"a":tru}`} {
		if got, err := readMembers(text, rawjson.Lenient()); err == nil || errors.Is(err, rawjson.ErrNotObject) || errors.Is(err, rawjson.ErrTrailing) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func TestDuplicateNamesAndInvalidUTF8(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1,"\u0061":2}`:   `"a" a=1;"\u0061" a=2;`,
		`{"a":{"b":1,"b":2}}`:  `"a" a={"b":1,"b":2};`,
		"{\"a\xff\":\"\xff\"}": "\"a\xff\" a\ufffd=\"\xff\";",
		`{"\ud800":"\ud800"}`:  "\"\\ud800\" \ufffd=\"\\ud800\";",
	} {
		if got, err := readMembers(text, rawjson.Lenient()); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if _, err := readMembers(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	for m, err := range rawjson.Members([]byte(`{"a":1,}`)) {
		if err != nil || m.Name() != "a" {
			t.Errorf("%s, %v", m.Key, err)
		}
		break
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	object := rawjson.AppendMember([]byte("{"), "a\"\xff", rawjson.AppendString(nil, "b\n"))
	object = append(rawjson.AppendMember(object, "c", []byte("1.50")), '}')
	if want := "{\"a\\\"\ufffd\":\"b\\n\",\"c\":1.50}"; string(object) != want {
		t.Errorf("%s, want %s", object, want)
	}
}

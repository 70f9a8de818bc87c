package call_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/runtime/call"
)

func TestCleanArgumentsKeepsBytes(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, call.MaxArgumentDepth-1) + `1` + strings.Repeat(`}`, call.MaxArgumentDepth-1)
	for in, want := range map[string]string{
		`{ "n" : 9007199254740993 , "e":1e400,"z": -0, "f":1.0 }`: `{"n":9007199254740993,"e":1e400,"z":-0,"f":1.0}`,
		"{\"s\":\"a\\u0041 \\u003c<>&\u2028 \\/\"}":               "{\"s\":\"a\\u0041 \\u003c<>&\u2028 \\/\"}",
		"\t{}\n":                  `{}`,
		`{"b":1,"a":[ 1 , 2 ]}`:   `{"b":1,"a":[1,2]}`,
		`{"pair":"\ud83d\ude00"}`: `{"pair":"\ud83d\ude00"}`,
		deep:                      deep,
	} {
		got, err := call.CleanArguments([]byte(in))
		if err != nil {
			t.Errorf("CleanArguments(%.60s): %v", in, err)
			continue
		}
		if string(got) != want {
			t.Errorf("CleanArguments(%.60s) = %.80s, want %.80s", in, got, want)
		}
	}
}

func TestCleanArgumentsRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, reason string }{
		"empty":            {``, "ends too early"},
		"cut":              {`{"a":1`, "ends too early"},
		"array":            {`[]`, "must be a JSON object"},
		"null":             {`null`, "must be a JSON object"},
		"duplicate":        {`{"a":1,"a":2}`, "duplicate"},
		"nested duplicate": {`{"x":{"a":1,"\u0061":2}}`, "duplicate"},
		"utf8":             {"{\"a\":\"\xff\"}", "UTF-8"},
		"utf8 key":         {"{\"\xc3\x28\":1}", "UTF-8"},
		"surrogate":        {`{"a":"\ud800"}`, "surrogate"},
		"swapped pair":     {`{"a":"\ude00\ud83d"}`, "surrogate"},
		"two values":       {`{}{}`, ""},
		"trailing":         {`{} x`, ""},
		"deep":             {strings.Repeat(`{"a":`, call.MaxArgumentDepth) + `{}` + strings.Repeat(`}`, call.MaxArgumentDepth), "must be nested at most"},
		"exponent":         {`{"a":1e999999999}`, "exponent"},
		"huge exponent":    {`{"a":1e99999999999999999999}`, "exponent"},
		"large":            {`{"a":"` + strings.Repeat("x", call.MaxArgumentBytes) + `"}`, "at most"},
		"NaN":              {`{"a":NaN}`, ""},
		"comment":          {`{"a":1/*x*/}`, ""},
	} {
		_, err := call.CleanArguments([]byte(tc.in))
		var door *call.DoorError
		if !errors.As(err, &door) {
			t.Errorf("%s: error %v, want a DoorError", name, err)
			continue
		}
		if !strings.Contains(door.Error(), tc.reason) {
			t.Errorf("%s: error %q does not say %q", name, door, tc.reason)
		}
	}
}

func FuzzCleanArguments(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,-0,1e400,"\ud83d\ude00"]}`, `{"a":1,"a":2}`, `{"\ud800":0}`, "{\"a\":\"\xff\"}", ` { "x" : { } } `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		clean, err := call.CleanArguments(in)
		if err != nil {
			var door *call.DoorError
			if !errors.As(err, &door) {
				t.Fatalf("error of type %T", err)
			}
			if !utf8.ValidString(door.Error()) {
				t.Fatalf("error %q is not UTF-8", door.Error())
			}
			return
		}
		if !json.Valid(clean) || !utf8.Valid(clean) {
			t.Fatalf("cleaned %q of %q contains a forbidden character", clean, in)
		}
		again, err := call.CleanArguments(clean)
		if err != nil || string(again) != string(clean) {
			t.Fatalf("cleaning %q again gives %q, %v", clean, again, err)
		}
		var before, after any
		if json.Unmarshal(in, &before) == nil && json.Unmarshal(clean, &after) == nil {
			x, _ := json.Marshal(before)
			y, _ := json.Marshal(after)
			if string(x) != string(y) {
				t.Fatalf("%q became %q", in, clean)
			}
		}
	})
}

package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime"
)

func TestModelDefaults(t *testing.T) {
	t.Parallel()
	env := map[string]string{"OPENAI_API_KEY": " k1\n", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/x"}
	got, err := readModelDefaults(func(name string) string { return env[name] })
	want := runtime.ModelDefaults{"openai": {APIKey: "k1"}, "anthropic": {BaseURL: "http://127.0.0.1:9/x"}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"127.0.0.1:9", "ftp://h/", "http://s3cret:s3cret@h/", "http:///x", "http://h s3cret"} {
		env["ANTHROPIC_BASE_URL"] = bad
		if _, err := readModelDefaults(func(name string) string { return env[name] }); err == nil || !strings.HasPrefix(err.Error(), "ANTHROPIC_BASE_URL: must be") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if none, err := readModelDefaults(func(string) string { return "" }); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

package condition_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/approval/condition"
)

const textSchema = `{"type":"object","properties":{"text":{"type":"string"}}}`

// withText is a call whose argument text is this.
func withText(text string) *condition.Input {
	arguments, _ := json.Marshal(map[string]string{"text": text})
	return withArguments(string(arguments))
}

func TestDomain(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, textSchema)
	const none = ""
	for text, want := range map[string]string{
		"ada@example.com":                        "example.com",
		"Ada Lovelace <ada@EXAMPLE.com>":         "example.com",
		"ceo@example.com <eve@evil.example>":     "evil.example",
		"ada@mail.example.co.uk":                 "mail.example.co.uk",
		"ada@example.com.":                       none,
		"ada@bücher.example":                     "xn--bcher-kva.example",
		"ada@xn--bcher-kva.example":              "xn--bcher-kva.example",
		"ada@ＥＸＡＭＰＬＥ.com":                        "example.com",
		"https://docs.example.com:8443/a?b=c#d":  "docs.example.com",
		"https://example.com.":                   "example.com",
		"https://example.com@evil.example/":      "evil.example",
		"https://evil.example/example.com":       "evil.example",
		"https://evil.example?@example.com":      "evil.example",
		"https://evil.example#@example.com":      "evil.example",
		"http://2130706433/":                     "127.0.0.1",
		"http://[::1]:80/":                       "::1",
		`http://evil.example\@example.com/`:      none,
		"https://example.com%2eevil.example/":    none,
		"https://exam ple.com/":                  none,
		"https://exam\tple.com/":                 none,
		"https://exam\u200bple.com/":             none,
		"https:///example.com":                   none,
		"file:///etc/passwd":                     none,
		"file://example.com/etc/passwd":          none,
		"eve%evil.example@example.com":           none,
		"evil.example!eve@example.com":           none,
		"javascript:alert(1)":                    none,
		"example.com":                            none,
		"ada@example.com, eve@evil.example":      none,
		"ada@example.com\nBcc: eve@evil.example": none,
		`"ada@example.com" eve@evil.example`:     none,
		"a@b@example.com":                        none,
		"":                                       none,
		"https://" + strings.Repeat("a", 5000):   none,
		"https://" + strings.Repeat("a.", 200):   none,
		"ada@-example.com":                       none,
		"ada@localhost":                          none,
		"https://localhost/":                     "localhost",
	} {
		got := match(t, schema, `domain(args.text) == "`+want+`"`, withText(text))
		if want == none {
			if !strings.HasPrefix(got, "domain: ") {
				t.Errorf("domain(%q) == \"\" is %s, want an error", text, got)
			}
			continue
		}
		if got != "true" {
			t.Errorf("domain(%q) is not %s: %s", text, want, got)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, textSchema)
	const unclear = "error"
	for _, c := range []struct{ path, folder, want string }{
		{"/srv/agent/a.txt", "/srv/agent", "true"},
		{"/srv/agent/a.txt", "/srv/agent/", "true"},
		{"/srv//agent/./x/../a", "/srv/agent", "true"},
		{"/srv/agent/..a", "/srv/agent", "true"},
		{"/srv/agent/100%.txt", "/srv/agent", "true"},
		{"/srv/agent/grüße.txt", "/srv/agent", "true"},
		{"/a", "/", "true"},
		{"docs/a", "docs", "true"},
		{"a", ".", "true"},
		{"/srv/agent", "/srv/agent", "false"},
		{"/srv/agent/", "/srv/agent", "false"},
		{"/srv/agent/.", "/srv/agent", "false"},
		{"/srv/agent/x/..", "/srv/agent", "false"},
		{"/srv/agent2/a", "/srv/agent", "false"},
		{"/srv/agent/../secret", "/srv/agent", "false"},
		{"/srv/agent/x/../../secret", "/srv/agent", "false"},
		{"/../srv/other", "/srv/agent", "false"},
		{"/", "/", "false"},
		{"../a", ".", "false"},
		{"..", ".", "false"},
		{"docs/../../a", "docs", "false"},
		{"a", "/srv/agent", unclear},
		{"/srv/agent/a", "srv", unclear},
		{`/srv/agent/..\..\secret`, "/srv/agent", unclear},
		{"/srv/agent/%2e%2e/secret", "/srv/agent", unclear},
		{"/srv/agent/%252e%252e/secret", "/srv/agent", unclear},
		{"/srv/agent/a\x00/../../secret", "/srv/agent", unclear},
		{"/srv/agent/a\nb", "/srv/agent", unclear},
		{"/srv/agent/\u202etxt", "/srv/agent", unclear},
		{"/srv/agent/\uff0e\uff0e/secret", "/srv/agent", unclear},
		{"/srv/agent/\u2025/secret", "/srv/agent", unclear},
		{"/srv/agent\uff0f..\uff0fsecret", "/srv/agent", unclear},
		{" /srv/agent/a", "/srv/agent", unclear},
		{"/srv/agent/.. /secret", "/srv/agent", unclear},
		{"/srv/agent/.../secret", "/srv/agent", unclear},
		{"/srv/agent/%u002e%u002e/secret", "/srv/agent", unclear},
		{"//srv/agent/a", "/srv/agent", unclear},
		{"~/a", "/srv/agent", unclear},
		{"~root/a", "docs", unclear},
		{"file:///srv/agent/a", "/srv/agent", unclear},
		{"file:/srv/agent/a", "docs", unclear},
		{"", "/srv/agent", unclear},
		{"/srv/agent/" + strings.Repeat("a", 5000), "/srv/agent", unclear},
		{"/srv/agent/a", "", unclear},
	} {
		got := match(t, schema, `within(args.text, "`+c.folder+`")`, withText(c.path))
		if strings.HasPrefix(got, "within: ") {
			got = unclear
		}
		if got != c.want {
			t.Errorf("within(%q, %q) is %s, want %s", c.path, c.folder, got, c.want)
		}
	}
}

func TestFilesRead(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, textSchema)
	const condition = `size(filesRead(args.text)) > 0 && filesRead(args.text).all(f, !f.startsWith("/"))`
	for text, want := range map[string]string{
		"cat a.go | head -5": "true",
		"cat /etc/passwd":    "false",
		"cat a; rm b":        "false",
		"":                   "false",
	} {
		if got := match(t, schema, condition, withText(text)); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestWritesSQL(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, textSchema)
	for text, want := range map[string]string{
		"SELECT count(*) FROM accounts": "false",
		"DELETE FROM accounts":          "true",
		"not SQL":                       "true",
		"":                              "true",
	} {
		if got := match(t, schema, `writesSQL(args.text)`, withText(text)); got != want {
			t.Errorf("writesSQL(%q) is %s, want %s", text, got, want)
		}
	}
}

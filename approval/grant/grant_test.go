package grant_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/secretfield"
)

func raw(values ...string) []json.RawMessage {
	list := make([]json.RawMessage, len(values))
	for i, v := range values {
		list[i] = json.RawMessage(v)
	}
	return list
}

// TestMatches: a call matches only if each argument is allowed beyond doubt, and there is no other.
func TestMatches(t *testing.T) {
	t.Parallel()
	exact := func(pointer, value string) grant.Matcher {
		return grant.Matcher{Argument: pointer, Kind: grant.Exact, Values: raw(value)}
	}
	one := func(kind grant.Kind, values ...string) grant.Matcher {
		return grant.Matcher{Argument: "/x", Kind: kind, Values: raw(values...)}
	}
	between := func(least, most json.Number) grant.Matcher {
		return grant.Matcher{Argument: "/x", Kind: grant.Range, Min: least, Max: most}
	}
	deep := strings.Repeat("[", 400) + strings.Repeat("]", 400)
	for _, tc := range []struct {
		matchers []grant.Matcher
		matching []string
		others   []string
	}{
		{nil, []string{`{}`}, []string{`{"x":1}`, `[]`, `null`, ``, `{`}},
		{[]grant.Matcher{exact("/x", `1`)}, []string{`{"x":1}`, `{ "x" : 1 }`}, []string{`{}`, `{"x":null}`, `{"x":"1"}`, `{"x":1.0}`, `{"x":1e0}`, `{"x":true}`, `{"x":[1]}`, `{"x":1,"y":1}`, `{"X":1}`, `{"x":1,"X":1}`, `{"x":1,"x":1}`}},
		{[]grant.Matcher{exact("/x", `9007199254740992`)}, []string{`{"x":9007199254740992}`}, []string{`{"x":9007199254740993}`, `{"x":9007199254740992.0}`}},
		{[]grant.Matcher{exact("/x", `0`)}, []string{`{"x":0}`}, []string{`{"x":-0}`, `{"x":0.0}`, `{"x":""}`, `{"x":false}`, `{"x":null}`}},
		{[]grant.Matcher{exact("/x", `null`)}, []string{`{"x":null}`}, []string{`{}`, `{"x":""}`}},
		{[]grant.Matcher{exact("/x", `"a"`)}, []string{`{"x":"a"}`, `{"x":"\u0061"}`}, []string{`{"x":"A"}`, `{"x":"a "}`, "{\"x\":\"a\u200b\"}", `{"x":"\ud800"}`}},
		{[]grant.Matcher{exact("/x", `{"a":1,"b":[2]}`)}, []string{`{"x":{"b":[2],"a":1}}`}, []string{`{"x":{"a":1}}`, `{"x":{"a":1,"b":[2],"c":3}}`, `{"x":{"a":1,"a":1,"b":[2]}}`}},
		{[]grant.Matcher{exact("/x", deep)}, []string{`{"x":` + deep + `}`}, []string{`{"x":` + deep[1:] + `}`}},
		{[]grant.Matcher{exact("/x/a", `1`), exact("/x/b", `2`)}, []string{`{"x":{"a":1,"b":2}}`}, []string{`{"x":{"a":1}}`, `{"x":{"a":1,"b":2,"c":3}}`, `{"x":[1,2]}`, `{"x":null}`, `{"x":{"a":1,"b":2},"y":1}`}},
		{[]grant.Matcher{exact("/a~1b", `1`)}, []string{`{"a/b":1}`}, []string{`{"a":{"b":1}}`}},
		{[]grant.Matcher{one(grant.OneOf, `"EUR"`, `"USD"`)}, []string{`{"x":"EUR"}`, `{"x":"USD"}`}, []string{`{"x":"GBP"}`, `{"x":["EUR"]}`, `{"x":"EURUSD"}`}},
		{
			[]grant.Matcher{between("0", "100")},
			[]string{`{"x":0}`, `{"x":100}`, `{"x":-0}`, `{"x":1e2}`, `{"x":99.99}`, `{"x":[1,2]}`},
			[]string{`{"x":100.00000000000001}`, `{"x":-1}`, `{"x":"50"}`, `{"x":null}`, `{"x":[]}`, `{"x":[1,101]}`, `{"x":[[1]]}`, `{"x":1e400}`, `{"x":1e-400}`, `{"x":true}`, `{}`},
		},
		{[]grant.Matcher{between("", "9007199254740992")}, []string{`{"x":9007199254740992}`, `{"x":-9223372036854775808}`}, []string{`{"x":9007199254740993}`, `{"x":-9223372036854775809}`, `{"x":0.10000000000000000555}`}},
		{
			[]grant.Matcher{one(grant.Domain, `"example.com"`)},
			[]string{`{"x":"eve@example.com"}`, `{"x":"EVE@EXAMPLE.COM"}`, `{"x":"https://example.com/a"}`, `{"x":["a@example.com","b@example.com"]}`},
			[]string{`{"x":"eve@notexample.com"}`, `{"x":"eve@sub.example.com"}`, `{"x":"https://example.com@evil.net/"}`, `{"x":"a@example.com, b@evil.net"}`, `{"x":"example.com"}`, `{"x":["a@example.com","b@evil.net"]}`, `{"x":[]}`, `{"x":{"a":"a@example.com"}}`, `{"x":1}`},
		},
		{
			[]grant.Matcher{one(grant.PathBelow, `"/srv/scratch"`)},
			[]string{`{"x":"/srv/scratch/a"}`, `{"x":"/srv/scratch/b/../a"}`},
			[]string{`{"x":"/srv/scratch"}`, `{"x":"/srv/scratch/../x"}`, `{"x":"/srv/scratch2/a"}`, `{"x":"/srv/scratch/%2e%2e/x"}`, `{"x":"/srv/scratch/..\\x"}`, `{"x":"srv/scratch/a"}`, `{"x":"file:///srv/scratch/a"}`, `{"x":"/srv/scratch/a "}`},
		},
		{[]grant.Matcher{one(grant.Prefix, `"https://example.com/a/"`)}, []string{`{"x":"https://example.com/a/b"}`, `{"x":"https://example.com/a/"}`}, []string{`{"x":"https://example.com/a"}`, `{"x":"https://example.com/a/../b"}`, `{"x":"https://example.com/a/%2E%2E/b"}`, `{"x":1}`}},
		{
			[]grant.Matcher{{Argument: "/command", Kind: grant.Prefix, Values: raw(`"git log"`)}},
			[]string{`{"command":"git log"}`, `{"command":"git log --oneline -5"}`, `{"command":"git log 'a b'"}`},
			[]string{
				`{"command":"git logs"}`, `{"command":"git log; rm a"}`, `{"command":"git log && rm a"}`, `{"command":"git log | sh"}`, `{"command":"git log > a"}`,
				`{"command":"git log $(rm a)"}`, "{\"command\":\"git log `rm a`\"}", `{"command":"git log\nrm a"}`, `{"command":"git log \u0000"}`, `{"command":"git log & rm a"}`,
			},
		},
		{[]grant.Matcher{one(grant.Prefix, `"Re: "`)}, []string{`{"x":"Re: a..b"}`}, []string{`{"x":"re: a"}`, `{"x":"Re:"}`}},
		{[]grant.Matcher{one(grant.Anything)}, []string{`{"x":1}`, `{"x":null}`, `{"x":{"a":[]}}`}, []string{`{}`, `{"x":1,"y":2}`, `{"x":{"a":1,"a":2}}`}},
	} {
		if invalid := grant.Check(tc.matchers); len(invalid) > 0 {
			t.Errorf("%+v is not valid: %v", tc.matchers, invalid)
			continue
		}
		stored, err := json.Marshal(tc.matchers) // as the database keeps it
		if err != nil {
			t.Fatal(err)
		}
		var read []grant.Matcher
		if err := json.Unmarshal(stored, &read); err != nil {
			t.Fatal(err)
		}
		pattern, err := grant.Compile(read)
		if err != nil {
			t.Fatal(err)
		}
		for _, arguments := range tc.matching {
			if !pattern.Matches(json.RawMessage(arguments)) {
				t.Errorf("%s: %.80s does not match", grant.Describe(tc.matchers), arguments)
			}
		}
		for _, arguments := range tc.others {
			if pattern.Matches(json.RawMessage(arguments)) {
				t.Errorf("%s: %.80s matches", grant.Describe(tc.matchers), arguments)
			}
		}
	}
}

func TestCheckNamesTheField(t *testing.T) {
	t.Parallel()
	good := grant.Matcher{Argument: "/x", Kind: grant.Exact, Values: raw(`1`)}
	for _, tc := range []struct {
		field string
		list  []grant.Matcher
	}{
		{"", []grant.Matcher{good}},
		{"arguments[0].argument", []grant.Matcher{{Argument: "x", Kind: grant.Anything}}},
		{"arguments[0].argument", []grant.Matcher{{Argument: "/~2", Kind: grant.Anything}}},
		{"arguments[1].argument", []grant.Matcher{good, good}},
		{"arguments[1].argument", []grant.Matcher{good, {Argument: "/x/a", Kind: grant.Anything}}},
		{"arguments[1].argument", []grant.Matcher{{Argument: "/x/a", Kind: grant.Anything}, good}},
		{"arguments[0].kind", []grant.Matcher{{Argument: "/x", Kind: "regex"}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Exact}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Exact, Values: raw(`{"a":1,"a":2}`)}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Anything, Values: raw(`1`)}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Domain, Values: raw(`"no domain"`)}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.PathBelow, Values: raw(`"/a/%2e"`)}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Prefix, Values: raw(`"https://example.com"`)}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Prefix, Values: raw(`""`)}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Prefix, Values: raw(`1`)}}},
		{"arguments[0].min", []grant.Matcher{{Argument: "/x", Kind: grant.Range}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Range, Min: "2", Max: "1"}}},
		{"arguments[0].values", []grant.Matcher{{Argument: "/x", Kind: grant.Range, Min: "1/2"}}},
		{"arguments[0].min", []grant.Matcher{{Argument: "/x", Kind: grant.Anything, Max: "1"}}},
	} {
		invalid := grant.Check(tc.list)
		got := ""
		if len(invalid) > 0 {
			got = invalid[0].Name
		}
		if got != tc.field {
			t.Errorf("%+v: invalid is %q, want %q", tc.list, got, tc.field)
		}
	}
}

// TestProposals: each proposed matcher allows the value of the call, and the first allows nothing else.
func TestProposals(t *testing.T) {
	t.Parallel()
	const call = `{"to":["a@example.com","b@example.com"],"path":"/srv/scratch/a.txt","amount":12.5,"memo":null,"options":{"dry_run":true,"note":"Re: tea"},"empty":{}}`
	proposals, err := grant.Propose(json.RawMessage(call))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	var exact []grant.Matcher
	for _, p := range proposals {
		exact = append(exact, p.Matchers[0])
		for _, m := range p.Matchers {
			kinds[p.Argument] += string(m.Kind) + " "
			if invalid := grant.Check([]grant.Matcher{m}); len(invalid) > 0 {
				t.Errorf("%s %s: %v", p.Argument, m.Kind, invalid)
			}
		}
	}
	for argument, want := range map[string]string{
		"/to": "exact one_of domain prefix anything ", "/path": "exact one_of path_below prefix anything ", "/amount": "exact one_of range anything ",
		"/memo": "exact one_of anything ", "/options/dry_run": "exact one_of anything ", "/options/note": "exact one_of prefix anything ", "/empty": "exact one_of anything ",
	} {
		if kinds[argument] != want {
			t.Errorf("%s: proposed are %q, want %q", argument, kinds[argument], want)
		}
	}
	for i := range proposals {
		for _, m := range proposals[i].Matchers {
			list := append([]grant.Matcher{}, exact...)
			list[i] = m
			pattern, err := grant.Compile(list)
			if err != nil || !pattern.Matches(json.RawMessage(call)) {
				t.Errorf("%s: %s does not match its own call: %v", m.Argument, m.Kind, err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	proposals, err := grant.Propose(json.RawMessage(`{"to":"a@example.com","amount":5}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		at   int
		kind grant.Kind
		text string
		want string
	}{
		{0, grant.Exact, "ignored", `to is "a@example.com"`},
		{0, grant.Domain, "", `to has the domain "example.com"`},
		{0, grant.Domain, "example.com\n\n example.org ", `to has the domain "example.com" or "example.org"`},
		{0, grant.OneOf, "a\nb", `to is "a" or "b"`},
		{1, grant.OneOf, "5\n6", `amount is 5 or 6`},
		{1, grant.Range, "0..100", `amount is from 0 to 100`},
		{1, grant.Range, "..100", `amount is at most 100`},
		{1, grant.Anything, "x", `amount is anything`},
	} {
		m := proposals[tc.at].Read(tc.kind, tc.text)
		if got := m.Describe(); got != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.kind, tc.text, got, tc.want)
		}
	}
}

// TestBook: only grants for the same agent, person, skill, tool and definition are found, those of plans first, then those without a number of uses.
func TestBook(t *testing.T) {
	t.Parallel()
	spec := grant.Spec{AgentID: uuid.New(), PrincipalID: uuid.New(), SkillID: uuid.New(), Tool: "write", Pin: [32]byte{1}, Arguments: []grant.Matcher{{Argument: "/x", Kind: grant.Anything}}}
	limited, unlimited := grant.Grant{ID: uuid.UUID{1}, Spec: spec, Limited: true}, grant.Grant{ID: uuid.UUID{2}, Spec: spec}
	planned, broken := grant.Grant{ID: uuid.UUID{4}, Spec: spec, Limited: true, Planned: true}, grant.Grant{ID: uuid.UUID{3}, Spec: spec}
	broken.Arguments = []grant.Matcher{{Argument: "/x", Kind: "later"}, {Argument: "x"}}
	book := grant.NewBook([]grant.Grant{limited, unlimited, broken, planned})
	if found := book.Find(&spec, json.RawMessage(`{"x":1}`)); !slices.Equal(found, []uuid.UUID{planned.ID, unlimited.ID, limited.ID}) {
		t.Errorf("found %v", found)
	}
	if found := book.Find(&spec, json.RawMessage(`{"y":1}`)); len(found) > 0 {
		t.Errorf("another argument: found %v", found)
	}
	for name, spoil := range map[string]func(*grant.Spec){
		"agent": func(s *grant.Spec) { s.AgentID = uuid.New() }, "person": func(s *grant.Spec) { s.PrincipalID = uuid.Nil }, "skill": func(s *grant.Spec) { s.SkillID = uuid.New() },
		"tool": func(s *grant.Spec) { s.Tool = "Write" }, "definition": func(s *grant.Spec) { s.Pin[0] = 2 },
	} {
		other := spec
		spoil(&other)
		if found := book.Find(&other, json.RawMessage(`{"x":1}`)); len(found) > 0 {
			t.Errorf("another %s: found %v", name, found)
		}
	}
}

// A matcher is written as text that means the same to the reader of forms, or not at all.
func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value, want string
		matcher     grant.Matcher
		ok          bool
	}{
		{`"a"`, "a\nb", grant.Matcher{Kind: grant.OneOf, Values: raw(`"a"`, `"b"`)}, true},
		{`1`, "1\n2.0", grant.Matcher{Kind: grant.OneOf, Values: raw(`1`, `2.0`)}, true},
		{`["a"]`, `["a"]`, grant.Matcher{Kind: grant.OneOf, Values: raw(`["a"]`)}, true},
		{`5`, "0..10", grant.Matcher{Kind: grant.Range, Min: "0", Max: "10"}, true},
		{`"x"`, "/srv/a\n/srv/b", grant.Matcher{Kind: grant.PathBelow, Values: raw(`"/srv/a"`, `"/srv/b"`)}, true},
		{`"x"`, "", grant.Matcher{Kind: grant.Anything}, true},
		{`"a"`, "a\nnull", grant.Matcher{Kind: grant.OneOf, Values: raw(`"a"`, `null`)}, false},
		{`"a"`, "a\n b", grant.Matcher{Kind: grant.OneOf, Values: raw(`"a"`, `" b"`)}, false},
	} {
		proposals, err := grant.Propose(json.RawMessage(`{"x":` + tc.value + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tc.matcher.Format(&proposals[0]); got != tc.want || ok != tc.ok {
			t.Errorf("%v as %q, %v; want %q, %v", tc.matcher, got, ok, tc.want, tc.ok)
		}
	}
}

// TestSecretsOfMatchers: exact values and the ends of ranges are secrets if the schema declares the argument as one.
func TestSecretsOfMatchers(t *testing.T) {
	t.Parallel()
	rules := secretfield.New(nil, []byte(`{"type":"object","properties":{"pin":{"type":"number","writeOnly":true},"n":{"type":"number"}}}`))
	for _, m := range []grant.Matcher{
		{Argument: "/pin", Kind: grant.Exact, Values: raw("1234")}, {Argument: "/pin", Kind: grant.Range, Min: "1234", Max: "1234"},
	} {
		if !m.HasSecret(rules) {
			t.Errorf("%+v has no secret", m)
		}
		m.Argument = "/n"
		if m.HasSecret(rules) {
			t.Errorf("%+v has a secret", m)
		}
	}
}

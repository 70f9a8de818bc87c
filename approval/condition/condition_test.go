package condition_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
)

func readSchema(t testing.TB, schema string) *condition.Schema {
	t.Helper()
	s, err := condition.ReadSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustCompile(t testing.TB, s *condition.Schema, source string) *condition.Program {
	t.Helper()
	p, err := s.Compile(source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return p
}

// match returns "true", "false" or the error.
func match(t *testing.T, s *condition.Schema, source string, in *condition.Input) string {
	t.Helper()
	holds, err := mustCompile(t, s, source).Match(t.Context(), condition.NewActivation(in), nil)
	switch {
	case err != nil && holds:
		t.Fatalf("%s: holds with the error %v", source, err)
	case err != nil:
		return err.Error()
	case holds:
		return "true"
	}
	return "false"
}

func withArguments(arguments string) *condition.Input {
	return &condition.Input{Arguments: json.RawMessage(arguments), Agent: "support", Skill: "ledger", Tool: "post_payment", Now: monday}
}

var monday = time.Date(2026, 11, 23, 21, 30, 0, 0, time.UTC)

const paymentSchema = `{"type":"object","properties":{
	"amount":{"type":"number"},
	"count":{"type":"integer"},
	"currency":{"enum":["EUR","USD"]},
	"memo":{"type":["string","null"]},
	"ok":{"type":"boolean"},
	"flag":{"type":["boolean","null"]},
	"tags":{"type":"array","items":{"enum":["urgent","internal"]}},
	"items":{"type":"array","items":{"type":"object","properties":{"price":{"type":"number"},"name":{"type":"string"}}}},
	"customer":{"type":"object","properties":{"id":{"type":"integer"}}},
	"meta":{"type":"object"},
	"nothing":{"type":"object","additionalProperties":false},
	"from-date":{"type":"string"},
	"any":{}
}}`

func TestProblems(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, paymentSchema)
	for _, c := range []struct{ source, want string }{
		// Names.
		{`args.amuont > 1.0`, `1:6: args has no field amuont: did you mean amount?`},
		{"args.ok &&\n  args.customer.di == 1", `2:17: args.customer has no field di: did you mean id?`},
		{`args.items.exists(i, i.pice > 1.0)`, `1:24: args.items[] has no field pice: did you mean price?`},
		{`args.items[0].nam == "a"`, `1:15: args.items[] has no field nam: did you mean name?`},
		{`"ä" == args.mem`, `1:13: args has no field mem: did you mean memo?`},
		{`args.nothing.x == 1`, `1:14: args.nothing has no fields`},
		{`principal.mail == "a"`, `1:11: principal has no field mail: did you mean email?`},
		{`context.pwd == ""`, `1:9: context has no field pwd: did you mean cwd?`},
		{`context.cwd == 1`, `1:13: cannot compare a string with an integer`},
		{`claimed.readonly`, `1:9: claimed has no field readonly: did you mean read_only?`},
		{`amount > 1.0`, `1:1: unknown name amount: did you mean args.amount?`},
		{`agnet == "a"`, `1:1: unknown name agnet: did you mean agent?`},
		{`domian(agent) == "a"`, `1:1: unknown function domian: did you mean domain?`},
		{`agent.startWith("a")`, `1:7: unknown function startWith: did you mean startsWith?`},
		{`dyn(args.amount) == 1`, `1:1: unknown function dyn`},
		{`agent.charAt(0) == "a"`, `1:7: unknown function charAt`},
		{`math.sqrt(args.amount) > 1.0`, `1:6: unknown function math.sqrt`},
		{`agent.name == "a"`, `1:7: a string has no fields`},
		{`args["amount"] > 1.0`, `1:5: the fields of args are written with a point: args.field`},
		// Types.
		{`args.amount <= 100`, `1:13: cannot compare a number with an integer: write 100.0`},
		{`100 >= args.amount`, `1:5: cannot compare an integer with a number: write 100.0`},
		{`args.count <= 100.0`, `1:12: cannot compare an integer with a number: write 100`},
		{`args.count == 1.5`, `1:12: cannot compare an integer with a number: an integer is never 1.5`},
		{`args.amount in [1, 2]`, `1:13: cannot compare a number with an integer: write 1.0`},
		{`args.amount > args.count`, `1:13: cannot compare a number with an integer: convert the integer with double(…)`},
		{`args.amount * 2 > 1.0`, `1:13: cannot calculate a number with an integer: write 2.0`},
		{`args.amount == "5"`, `1:13: cannot compare a number with a string`},
		{`args.ok == "true"`, `1:9: cannot compare a boolean with a string`},
		{`args.amount == null`, `1:13: a number is never null: test with has(…) whether it is missing`},
		{`args.amount && args.ok`, `1:6: expected a boolean, not a number`},
		{`!args.amount`, `1:1: ! cannot be used with a number`},
		{`domain(args.amount) == "a"`, `1:1: domain must be called as domain(text), not with a number`},
		{`args.amount in args.currency`, `1:13: in needs a list on the right, not a string`},
		{`args.amount.all(x, x > 1)`, `1:6: all, exists, exists_one, filter and map need a list, not a number`},
		{`[1, 2.0].exists(x, x == args.count)`, `1:5: expected an integer, not a number`},
		{`(args.ok ? args.amount : args.count) == 1.0`, `1:10: cannot choose between a number and an integer`},
		{`(args.amount ? 1 : 2) == 1`, `1:14: expected a boolean before ?, not a number`},
		{`args.count in [1, args.amount]`, `1:24: expected an integer, not a number`},
		// The result.
		{`args.amount`, `1:6: the condition must be true or false, not a number`},
		{`args.flag`, `1:6: the condition must be true or false, and this may be null: compare the value with == true`},
		{`args.customer`, `1:6: the condition must be true or false, not the object args.customer`},
		// What can never be true or false.
		{`args.currency == "EURO"`, `1:18: args.currency is never "EURO": did you mean "EUR"?`},
		{`"Dollar" != args.currency`, `1:1: args.currency is never "Dollar": it must be one of "EUR", "USD"`},
		{`args.currency in ["EUR", "GPB"]`, `1:26: args.currency is never "GPB": it must be one of "EUR", "USD"`},
		{`"urgnt" in args.tags`, `1:1: args.tags[] is never "urgnt": did you mean "urgent"?`},
		{`args.tags.exists(t, t == "urgnt")`, `1:26: args.tags[] is never "urgnt": did you mean "urgent"?`},
		{`true`, `1:1: the condition reads nothing of the call, so it is the same for every call`},
		{`1 < 2`, `1:3: the condition reads nothing of the call, so it is the same for every call`},
		{`[1, 2].all(x, x > 0)`, `1:8: the condition reads nothing of the call, so it is the same for every call`},
		{`args.ok || true`, `1:12: this part is the same for every call: remove it`},
		{`args.tags.exists(t, 1 < 2 && t == "urgent")`, `1:23: this part is the same for every call: remove it`},
		{`args.amount <= 9007199254740993.0`, `1:16: 9007199254740993.0 has more digits than a number can hold: write 9007199254740992.0`},
		// Literals.
		{`agent.matches("(")`, "1:15: the pattern of matches must be a regular expression (RE2): missing closing ): `(`"},
		{`agent.matches("(?=a)")`, "1:15: the pattern of matches must be a regular expression (RE2): invalid or unsupported Perl syntax: `(?=`"},
		{`agent.matches(tool)`, `1:15: the pattern of matches must be a text in quotes`},
		{`now.getHours("Europe/Berln") == 7`, `1:14: unknown time zone "Europe/Berln": write a name such as "Europe/Berlin", or an offset such as "+02:00"`},
		{`now.getHours("Local") == 7`, `1:14: unknown time zone "Local": write a name such as "Europe/Berlin", or an offset such as "+02:00"`},
		{`now.getHours(agent) == 7`, `1:14: the time zone must be a text in quotes, such as "Europe/Berlin"`},
		{`now > timestamp("tomorrow")`, `1:17: timestamp: must be written as timestamp("2026-01-31T08:00:00Z")`},
		{`now - timestamp("2026-01-31T08:00:00Z") > duration("1 day")`, `1:52: duration: must be written as duration("1h30m")`},
		// Syntax.
		{`args.amount = 1.0`, `1:13: unexpected =: write == to compare`},
		{`args.ok and args.ok`, `1:9: unexpected and: write && for and`},
		{`args.ok | args.ok`, `1:9: unexpected |: write || for or`},
		{`args.amount >`, `1:14: unexpected the end of the condition`},
		{`agent == "a`, `1:10: the text has no closing quote`},
		{`has(args)`, `1:5: has takes a field: has(args.field)`},
		{` `, `1:1: the condition is empty`},
		{`agent == “a”`, "1:10: unexpected “: write straight quotes, \"text\""},
		{`args.count <> 3`, `1:13: unexpected >: write != for not equal`},
		{`args.in == 3`, `1:6: unexpected .in: write the name in backticks`},
		{`args.count > 9223372036854775808`, `1:14: the number is too large`},
		{`args.tags.exists(t)`, "1:11: exists must be called as list.exists(item, condition)\n1:18: unknown name t: it must be one of agent, args, claimed, context, now, principal, skill, tool"},
		{`args{}`, `1:5: a condition cannot make objects`},
		{`args.tags.all(args, args == "urgent")`, `1:11: the name args is taken: choose another name for the items`},
		// Size and cost.
		{"args.ok" + strings.Repeat(" ", condition.MaxSource), `1:1: a condition must have at most 4096 bytes, not 4103`},
		{strings.Repeat("(", 200) + "args.ok" + strings.Repeat(")", 200), `1:1: the condition is nested too deep`},
		// Several at once, in the order of the text.
		{"args.amuont > 1.0 &&\nargs.count > 1.0", "1:6: args has no field amuont: did you mean amount?\n2:12: cannot compare an integer with a number: write 1"},
	} {
		_, err := schema.Compile(c.source)
		if _, ok := errors.AsType[*condition.Error](err); !ok {
			t.Errorf("%.60s: %v, want %s", c.source, err, c.want)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%.60s:\n got %s\nwant %s", c.source, err, c.want)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, paymentSchema)
	for _, c := range []struct{ source, arguments, want string }{
		// Numbers are exact.
		{`args.count == 9007199254740993`, `{"count":9007199254740993}`, "true"},
		{`args.count == 9007199254740992`, `{"count":9007199254740993}`, "false"},
		{`args.count == 9223372036854775807`, `{"count":9223372036854775807}`, "true"},
		{`args.count > 0`, `{"count":9223372036854775808}`, "args.count must be between -9223372036854775808 and 9223372036854775807"},
		{`args.count == 1`, `{"count":1.0}`, "true"},
		{`args.count == 100`, `{"count":1e2}`, "true"},
		{`args.count == 0`, `{"count":-0}`, "true"},
		{`args.count == 1`, `{"count":1.5}`, "args.count must be a whole number"},
		{`args.amount == 100.0`, `{"amount":100}`, "true"},
		{`args.amount == 0.1`, `{"amount":0.1}`, "true"},
		{`args.amount > 0.1`, `{"amount":0.1000000000000000055511151231257827}`, "args.amount has more digits than a number can hold"},
		{`args.amount > 1.0`, `{"amount":9007199254740993}`, "args.amount has more digits than a number can hold"},
		{`args.amount == 9007199254740992.0`, `{"amount":9007199254740992}`, "true"},
		{`args.amount > 1.0`, `{"amount":1e400}`, "args.amount is too large for a number"},
		{`args.amount >= 0.0`, `{"amount":1e-400}`, "args.amount has more digits than a number can hold"},
		{`args.amount == 0.0 && string(args.amount) == "0"`, `{"amount":-0.0}`, "true"},
		{`double(args.count) < 1.0`, `{"count":9007199254740993}`, "double: the integer has more digits than a number can hold"},
		{`int(args.amount) <= 99`, `{"amount":99.5}`, "int: the number must be whole: use math.floor, math.ceil or math.round"},
		{`int(math.ceil(args.amount)) == 100`, `{"amount":99.5}`, "true"},
		{`args.amount / 0.0 > 1.0`, `{"amount":1}`, "the result is not a finite number"},
		{`args.amount * 1e308 != 5.0`, `{"amount":1000}`, "the result is not a finite number"},
		{`args.count + 1 > 0`, `{"count":9223372036854775807}`, "integer overflow"},
		// Without a schema.
		{`args.any == 5`, `{"any":5.0}`, "true"},
		{`args.any == 5.0`, `{"any":5}`, "true"},
		{`args.any == 5`, `{"any":"5"}`, "false"},
		{`args.any > 5`, `{"any":"6"}`, "an operator or function cannot be used with values of these types"},
		{`args.any == 9007199254740992.0`, `{"any":9007199254740993}`, "args.any must be smaller than 9007199254740992, because the tool's schema does not say which type it has"},
		{`args.any`, `{"any":true}`, "true"},
		{`args.any`, `{"any":"true"}`, "the condition is neither true nor false"},
		{`args.any`, `{"any":null}`, "the condition is neither true nor false"},
		{`args.any || args.ok`, `{"any":1,"ok":false}`, "an operator or function cannot be used with values of these types"},
		{`(args.ok ? args.any : 5) == 5`, `{"ok":false}`, "true"},
		{`args.count in [args.any, 5]`, `{"count":7,"any":7.0}`, "true"},
		{`args.meta.limit > 5`, `{"meta":{"limit":6}}`, "true"},
		{`args.meta["limit"] > 5`, `{"meta":{"limit":6}}`, "true"},
		{`args.any.a[1].b == "c"`, `{"any":{"a":[0,{"b":"c"}]}}`, "true"},
		// Missing and null.
		{`args.amount > 1.0`, `{}`, "no such key: amount"},
		{`has(args.amount)`, `{}`, "false"},
		{`has(args.memo)`, `{"memo":null}`, "true"},
		{`args.memo == null`, `{"memo":null}`, "true"},
		{`args.memo == null`, `{"memo":"a"}`, "false"},
		{`args.memo == null`, `{}`, "no such key: memo"},
		{`args.memo != "a"`, `{"memo":null}`, "true"},
		{`args.memo < "b"`, `{"memo":null}`, "< cannot be used with values of these types"},
		{`args.amount > 1.0`, `{"amount":null}`, "args.amount must be a number, not null"},
		{`has(args.customer.id)`, `{}`, "no such key: customer"},
		{`has(args.customer) && has(args.customer.id)`, `{}`, "false"},
		{`args.any == null`, `{"any":null}`, "true"},
		{`has(args.any.a)`, `{"any":"text"}`, "no such key: a"},
		// Other types.
		{`args.amount > 1.0`, `{"amount":"2"}`, "args.amount must be a number, not a string"},
		{`args.ok`, `{"ok":"true"}`, "args.ok must be a boolean, not a string"},
		{`args.customer.id == 1`, `{"customer":[]}`, "args.customer must be an object, not a list"},
		{`size(args.tags) == 0`, `{"tags":{}}`, "args.tags must be a list, not an object"},
		{`args.ok`, `[]`, "args must be an object, not a list"},
		{`args.ok`, `{"ok":`, "args must be JSON"},
		{`args.ok`, `{"ok":true} {}`, "args must be one JSON value"},
		{`args.ok`, `{"ok":true,"ok":false}`, `args has a name twice`},
		// A bad value fails what touches it, and nothing else.
		{`args.ok`, `{"ok":true,"any":1e400,"memo":"` + "\xff" + `"}`, "true"},
		{`args.memo != "a"`, `{"memo":"` + "\xff" + `"}`, "args.memo must be valid UTF-8"},
		{`args.memo != "a"`, `{"memo":"\ud800"}`, "args.memo must be valid UTF-8"},
		{`args.any != 1`, `{"any":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "args.any is nested more than 100 deep"},
		{`args.items[0].name == "a"`, `{"items":[{"name":"a","price":1e400}]}`, "true"},
		{`args.items.exists(i, i.name == "a")`, `{"items":[{"name":"a","price":1e400}]}`, "args.items[].price is too large for a number"},
		{`args.items != [args.items[0]]`, `{"items":[{"name":"a","price":1e400}]}`, "args.items[].price is too large for a number"},
		{`!has(args.items[0].price)`, `{"items":["text"]}`, "args.items[] must be an object, not a string"},
		{`args.any != [1]`, `{"any":[1e400]}`, "args.any is too large for a number"},
		{`!(1 in args.any)`, `{"any":[1e400]}`, "args.any is too large for a number"},
		// && and || give an answer if one side decides.
		{`args.amount > 1.0 || args.ok`, `{"ok":true}`, "true"},
		{`args.ok || args.amount > 1.0`, `{"ok":true}`, "true"},
		{`args.amount > 1.0 && args.ok`, `{"ok":false}`, "false"},
		{`args.ok && args.amount > 1.0`, `{"ok":true}`, "no such key: amount"},
		{`args.ok || args.amount > 1.0`, `{"ok":false}`, "no such key: amount"},
		{`!(args.amount > 1.0)`, `{}`, "no such key: amount"},
		{`args.ok ? args.amount > 1.0 : true == args.ok`, `{"ok":true}`, "no such key: amount"},
		{`args.tags.exists(t, t == "urgent" || args.amount > 1.0)`, `{"tags":["internal","urgent"]}`, "true"},
		{`args.tags.all(t, t == "urgent" && args.amount > 1.0)`, `{"tags":["internal","urgent"]}`, "false"},
		// Errors do not repeat values, which could be secrets.
		{`args.meta[args.memo] == 1`, `{"meta":{},"memo":"secret"}`, "no such key"},
		{`timestamp(args.memo) < now`, `{"memo":"secret"}`, "an operation has no result for these values"},
		{`int(args.memo) < 5`, `{"memo":"secret"}`, "an operation has no result for these values"},
		{`domain(args.memo) == "a"`, `{"memo":"secret"}`, "domain: the text must be one e-mail address or one URL"},
		{`within(args.memo, "/a")`, `{"memo":"/secret%2f"}`, "within: the path must not be percent-encoded"},
		{`args.tags[args.count] == "urgent"`, `{"tags":[],"count":77}`, "index out of bounds"},
		// Names in backticks.
		{"args.`from-date` == \"a\"", `{"from-date":"a"}`, "true"},
		{"has(args.`from-date`)", `{}`, "false"},
		// The call.
		{`agent == "support" && skill == "ledger" && tool == "post_payment"`, `{}`, "true"},
		{`now.getHours("Europe/Berlin") == 22 && now.getDayOfWeek("Europe/Berlin") == 1`, `{}`, "true"},
		{`now.getHours("Asia/Tokyo") == 6 && now.getDate("Asia/Tokyo") == 24`, `{}`, "true"},
		{`now.getHours("+02:30") == 0 && now.getHours() == 21`, `{}`, "true"},
		{`now < timestamp("2026-11-24T00:00:00Z")`, `{}`, "true"},
		// Functions of the library.
		{`agent.lowerAscii().trim() == "support" && agent.split("p").size() == 3`, `{}`, "true"},
		{`agent.replace("s", "S") == "Support"`, `{}`, "true"},
		{`agent.replace("", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx").replace("x", args.memo) == "a"`, `{"memo":"` + strings.Repeat("m", 20000) + `"}`, "replace: the result must have at most 2097152 bytes"},
		{`math.abs(args.amount) == 1.5 && math.floor(args.amount) == -2.0 && math.round(args.amount) == -2.0`, `{"amount":-1.5}`, "true"},
		{`math.abs(args.count) == 3`, `{"count":-3}`, "true"},
		{`math.abs(args.count) > 3`, `{"count":-9223372036854775808}`, "integer overflow"},
		{`args.items.map(i, i.price).exists(p, p > 1.0)`, `{"items":[{"price":2}]}`, "true"},
		{`args.items.filter(i, i.price > 1.0).size() == 1`, `{"items":[{"price":2},{"price":1}]}`, "true"},
	} {
		if got := match(t, schema, c.source, withArguments(c.arguments)); got != c.want {
			t.Errorf("%s for %.200s:\n got %s\nwant %s", c.source, c.arguments, got, c.want)
		}
	}
}

func TestPrincipalAndClaims(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, paymentSchema)
	isTrue, isFalse := true, false
	nobody := withArguments(`{}`)
	ada := withArguments(`{}`)
	ada.Principal = &condition.Principal{ID: "7", Email: "ada@example.com", Groups: []string{"finance"}}
	ada.Claimed = condition.Hints{ReadOnly: &isTrue, Destructive: &isFalse}
	ada.Context = condition.Context{Cwd: "/src/app", Paths: []string{"/src/app/a", "/etc/passwd"}}
	for _, c := range []struct {
		source string
		in     *condition.Input
		want   string
	}{
		{source: `principal.email == "ada@example.com"`, in: ada, want: "true"},
		{source: `principal.email == "ada@example.com"`, in: nobody, want: "no such key: email"},
		{source: `principal.email != "ada@example.com"`, in: nobody, want: "no such key: email"},
		{source: `has(principal.name)`, in: ada, want: "false"},
		{source: `principal.name == ""`, in: ada, want: "no such key: name"},
		{source: `principal == null`, in: nobody, want: "true"},
		{source: `principal == null`, in: ada, want: "false"},
		{source: `principal != null && has(principal.email)`, in: nobody, want: "false"},
		{source: `"finance" in principal.groups`, in: ada, want: "true"},
		{source: `!("finance" in principal.groups)`, in: nobody, want: "no such key: groups"},
		{source: `claimed.read_only && !claimed.destructive`, in: ada, want: "true"},
		{source: `!claimed.destructive`, in: nobody, want: "no such key: destructive"},
		{source: `has(claimed.open_world)`, in: ada, want: "false"},
		{source: `within(context.cwd, "/src")`, in: ada, want: "true"},
		{source: `context.paths.all(p, within(p, "/src"))`, in: ada, want: "false"},
		{source: `context.paths.exists(p, within(p, "/src"))`, in: ada, want: "true"},
		{source: `context.paths.all(p, within(p, "/src"))`, in: nobody, want: "no such key: paths"},
		{source: `has(context.cwd) || has(context.paths)`, in: nobody, want: "false"},
	} {
		if got := match(t, schema, c.source, c.in); got != c.want {
			t.Errorf("%s: %s, want %s", c.source, got, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	numbers := strings.Repeat("1,", 999) + "1"
	in := withArguments(`{"few":[` + numbers + `]}`)
	bounded := readSchema(t, `{"type":"object","properties":{"few":{"type":"array","maxItems":100,"items":{"type":"integer"}}}}`)
	program := mustCompile(t, bounded, `args.few.all(a, args.few.all(b, a + b > 0))`)
	if _, err := program.Match(t.Context(), condition.NewActivation(in), nil); !errors.Is(err, condition.ErrCost) && !errors.Is(err, condition.ErrTime) {
		t.Errorf("a million additions end with %v, want %v", err, condition.ErrCost)
	}
	for source, want := range map[string]string{
		`args.few.exists(a, args.few.exists(b, args.few.exists(c, args.few.exists(d, a + b == c + d))))`: "1:1: the condition may cost ",
		`agent.contains("a")` + strings.Repeat(` || agent.contains("a")`, 100):                           "",
	} {
		if _, err := bounded.Compile(source); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%.100s: %v, want %q", source, err, want)
		}
	}
	schema := readSchema(t, paymentSchema)
	long := `{"memo":"` + strings.Repeat("a", 900_000) + `"}`
	if got := match(t, schema, `args.memo.matches("((a{100}){10}b)")`, withArguments(long)); got != condition.ErrCost.Error() {
		t.Errorf("a search of a billion steps ends with %s", got)
	}
	if got := match(t, schema, `args.memo.matches("^a+$")`, withArguments(long)); got != "true" {
		t.Errorf("a simple search of a long text ends with %s", got)
	}
	searches := `args.memo.matches("a+b")` + strings.Repeat(` || args.memo.matches("a+b")`, 50)
	if got := match(t, schema, searches, withArguments(long)); got != condition.ErrCost.Error() {
		t.Errorf("50 searches of a long text end with %s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := program.Match(ended, condition.NewActivation(in), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled evaluation ends with %v", err)
	}
	wide := mustCompile(t, bounded, strings.Repeat(`agent == "a" || `, 200)+`agent == "support"`)
	if holds, err := wide.Match(t.Context(), condition.NewActivation(in), nil); err != nil || !holds {
		t.Errorf("200 alternatives: %t, %v", holds, err)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, paymentSchema)
	for _, c := range []struct{ source, fields, functions string }{
		{`args.amount <= 100.0 && args.currency == "EUR"`, "args.amount args.currency", ""},
		{`args.items.exists(i, i.price > 10.0)`, "args.items args.items[].price", "exists"},
		{`args.items[0].name == agent`, "agent args.items[].name", ""},
		{`has(args.customer) && args.customer.id == 1`, "args.customer args.customer.id", "has"},
		{`args.meta["a"] == 1 && args.meta.b == 2`, "args.meta.a args.meta.b", ""},
		{`[principal][0].email == "a" && {"a": now}.a < now`, "now principal", ""},
		{`domain(principal.email) == "a.b" && now.getHours("UTC") > 1`, "now principal.email", "domain getHours"},
		{`math.abs(args.amount) > 2.0`, "args.amount", "math.abs"},
	} {
		got := mustCompile(t, schema, c.source).References()
		if strings.Join(got.Fields, " ") != c.fields || strings.Join(got.Functions, " ") != c.functions {
			t.Errorf("%s reads %q and calls %q, want %q and %q", c.source, got.Fields, got.Functions, c.fields, c.functions)
		}
	}
}

// TestSimilarNames: a server may read an argument under a name that only looks like the one of the schema.
func TestSimilarNames(t *testing.T) {
	t.Parallel()
	typed := `{"type":"object","properties":{"amount":{"type":"number"},"max_total":{"type":"number"},"note":{"type":"string"},"Note":{"type":"string"},"to":{"type":"object","properties":{"iban":{"type":"string"}}}}}`
	const similar = "is given under a name that differs only in case, _ or -"
	for _, c := range []struct{ schema, source, arguments, want string }{
		{typed, `args.amount <= 5.0`, `{"amount":1,"Amount":9}`, "args.amount " + similar},
		{typed, `args.amount <= 5.0`, `{"amount":1,"a-mount":9}`, "args.amount " + similar},
		{typed, `!has(args.amount) || args.amount <= 5.0`, `{"AMOUNT":9}`, "args.amount " + similar},
		{typed, `args.max_total <= 5.0`, `{"max_total":1,"maxTotal":9}`, "args.max_total " + similar},
		{typed, `args.to.iban == "DE1"`, `{"to":{"iban":"DE1","IBAN":"DE2"}}`, "args.to.iban " + similar},
		{typed, `args.amount <= 5.0`, `{"amount":1,"Max_Total":9,"other":1,"Other":2}`, "true"},
		{typed, `args.note == "a"`, `{"note":"a","Note":"b"}`, "true"},
		{`{"type":"object"}`, `args.amount <= 5`, `{"amount":1,"Amount":9}`, "args[] " + similar},
		{``, `args.kind == "a"`, `{"kind":"a","\u212aind":"b"}`, "args " + similar},
		{``, `args.amount <= 5`, `{"amount":1,"a_mount":9}`, "true"},
	} {
		if got := match(t, readSchema(t, c.schema), c.source, withArguments(c.arguments)); got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.source, c.arguments, got, c.want)
		}
	}
}

// The type of each field of these schemas is seen in the comparisons that compile.
func TestSchemas(t *testing.T) {
	t.Parallel()
	const (
		text    = `args.x == "a"`
		whole   = `args.x == 1`
		decimal = `args.x == 1.0`
		flag    = `args.x == true`
		null    = `args.x == null`
		list    = `args.x.exists(y, y == "a")`
		field   = `args.x.y == "a"`
		key     = `args.x["z"] == "a"`
	)
	untyped := []string{text, whole, decimal, flag, null, list, field, key}
	for _, c := range []struct {
		name, schema string
		want         []string
	}{
		{"string", `{"type":"string"}`, []string{text}},
		{"number", `{"type":"number"}`, []string{decimal}},
		{"integer", `{"type":"integer"}`, []string{whole}},
		{"boolean", `{"type":"boolean"}`, []string{flag}},
		{"nullable", `{"type":["string","null"]}`, []string{text, null}},
		{"nullable in OpenAPI", `{"type":"integer","nullable":true}`, []string{whole, null}},
		{"optional in pydantic", `{"anyOf":[{"type":"number"},{"type":"null"}]}`, []string{decimal, null}},
		{"enum without type", `{"enum":["a","b",null]}`, []string{text, null}},
		{"const", `{"const":"a"}`, []string{text}},
		{"list", `{"type":"array","items":{"type":"string"}}`, []string{list}},
		{"tuple", `{"type":"array","prefixItems":[{"type":"string"}]}`, []string{list}},
		{"object", `{"type":"object","properties":{"y":{"type":"string"}}}`, []string{null, field}},
		{"map", `{"type":"object","additionalProperties":{"type":"string"}}`, []string{list, field, key}},
		{"map of integers", `{"type":"object","additionalProperties":{"type":"integer"}}`, []string{list}},
		{"closed object", `{"type":"object","additionalProperties":false}`, []string{null}},
		{"none", `{}`, untyped},
		{"true", `true`, untyped},
		{"unknown type", `{"type":"text"}`, untyped},
		{"several types", `{"type":["string","number"]}`, untyped},
		{"different alternatives", `{"anyOf":[{"type":"string"},{"type":"number"}]}`, untyped},
		{"nullable list", `{"type":["array","null"],"items":{"type":"string"}}`, untyped},
		{"same alternatives", `{"oneOf":[{"type":"string","maxLength":5},{"enum":["a"]}]}`, []string{text}},
		{"objects as alternatives", `{"oneOf":[{"type":"object","properties":{"y":{"type":"string"}}},{"type":"object","properties":{"w":{}}}]}`, []string{null, field}},
		{"reference", `{"$ref":"#/$defs/a~1b"}`, []string{text}},
		{"reference with siblings", `{"$ref":"#/$defs/n","description":"n"}`, []string{decimal}},
		{"recursion", `{"$ref":"#/$defs/tree"}`, []string{null, field}},
		{"reference in a circle", `{"$ref":"#/$defs/circle"}`, untyped},
		{"reference elsewhere", `{"$ref":"https://example.com/a"}`, untyped},
		{"missing reference", `{"$ref":"#/$defs/none"}`, untyped},
		{"all of", `{"allOf":[{"type":"object","properties":{"y":{"type":"string"}}},{"properties":{"z":{}}}]}`, []string{null, field}},
		{"all of numbers", `{"allOf":[{"type":"number"},{"type":"integer"}]}`, []string{whole}},
		{"contradiction", `{"allOf":[{"type":"number"},{"type":"string"}]}`, untyped},
	} {
		schema := readSchema(t, `{"type":"object","properties":{"x":`+c.schema+`},"$defs":{
			"a/b":{"type":"string"},"n":{"type":"number"},"circle":{"$ref":"#/$defs/circle"},
			"tree":{"type":"object","properties":{"y":{"type":"string"},"left":{"$ref":"#/$defs/tree"}}}}}`)
		var got []string
		for _, source := range untyped {
			if _, err := schema.Compile(source); err == nil {
				got = append(got, source)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: these compile: %q, want %q", c.name, got, c.want)
		}
	}
}

// A rule is stored before any tool is known, so what compiles for a tool compiles without a schema.
func TestUntypedAcceptsWhatSchemasAccept(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, `{"type":"object","properties":{"ok":{"type":"boolean"},"a":{"type":"number"},"b":{"type":"number"},"n":{"type":"integer"},
		"s":{"type":"string"},"few":{"type":"array","maxItems":9,"items":{"type":"integer"}},"note":{"type":["string","null"]}}}`)
	anything := readSchema(t, "")
	sources := []string{
		`args.ok`, `!args.ok`, `(args.ok ? args.a : 1.0) > 2.0`, `(args.ok ? args.a : double(args.n)) > 2.0`, `args.a in [args.b, 1.0]`, `[args.a, 1.0].all(x, x > 0.5)`,
		`{"x": args.a, "y": 1.0}.x > 0.5`, `-args.n < 1`, `args.n % 2 == 1`, `args.a + 1.0 > args.b * 2.0`, `math.abs(args.a) > 1.0`, `args.note == null`,
		`args.few.all(a, args.few.all(b, args.few.all(c, a + b + c > 0)))`, `timestamp(args.s) < now`, `string(args.n) == args.s`, `size(args.few) == size(args.s)`,
		`args.few.map(x, x + 1).filter(x, x > 2).exists_one(x, x == 3)`, `args.s.split(",").all(x, domain(x) == "example.com")`, `args.few[0] == args.n`,
	}
	for _, r := range oracleRules() {
		if !r.untyped {
			mustCompile(t, anything, r.source)
		}
	}
	for _, source := range sources {
		mustCompile(t, schema, source)
		mustCompile(t, anything, source)
	}
}

func TestSchemasThatAreHard(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 200) + `{}` + strings.Repeat(`}}`, 200)
	mustCompile(t, readSchema(t, deep), `args`+strings.Repeat(".a", 60)+` == 1`)

	// Each definition names the next one twice, which makes a million schemas.
	var many strings.Builder
	for i := range 20 {
		many.WriteString(`"d` + string(rune('a'+i)) + `":{"type":"object","properties":{"l":{"$ref":"#/$defs/d` + string(rune('b'+i)) + `"},"r":{"$ref":"#/$defs/d` + string(rune('b'+i)) + `"}}},`)
	}
	readSchema(t, `{"$ref":"#/$defs/da","$defs":{`+many.String()+`"du":{}}}`)

	if _, err := condition.ReadSchema(json.RawMessage(`{"type":`)); err == nil {
		t.Error("half a schema is accepted")
	}
	mustCompile(t, readSchema(t, ""), `args.anything > 1`)
}

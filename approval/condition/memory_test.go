package condition_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
)

const memorySchema = `{"type":"object","properties":{
	"amount":{"type":"number"},
	"cents":{"type":"integer"},
	"currency":{"enum":["EUR","USD"]},
	"to":{"type":"array","items":{"type":"string"}},
	"items":{"type":"array","items":{"type":"object","properties":{"price":{"type":"number"}}}},
	"payment":{"type":"object","properties":{"amount":{"type":"number"},"tax":{"type":["number","null"]}}},
	"limits":{"type":"object","additionalProperties":{"type":"integer"}},
	"any":{}}}`

func TestMemoryIsTyped(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, memorySchema)
	for source, want := range map[string]string{
		`spent("amount", "1h") + args.amount <= 5000.0`:                       ``,
		`spent("cents", "1h") + args.cents <= 5000`:                           ``,
		`spent("payment.amount", "31d", "agent") < 1.5`:                       ``,
		`spent("payment.tax", "7d", "principal") < 1.5`:                       ``,
		`spent("limits.day", "90s", "tool") < 3`:                              ``,
		`spent("any.x", "1h") < 3`:                                            ``,
		`calls("1m") < 10`:                                                    ``,
		`calls("1m", "principal") < 10 && distinct("to", "1d", "agent") <= 5`: ``,
		`distinct("currency", "1s") <= 1`:                                     ``,
		`after("read_inbox") || after("mail/read_inbox")`:                     ``,
		`!(calls("1m") > 3)`:                                                  ``,
		`spent("amount", "1h") + args.amount <= 5000`:                         `1:37: cannot compare a number with an integer: write 5000.0`,
		`spent("cents", "1h") + args.amount <= 5000.0`:                        `1:22: cannot add an integer with a number: convert the integer with double(…)`,
		`calls("1h") < 10.0`:                                                  `1:13: cannot compare an integer with a number: write 10`,
		`spent("amuont", "1h") < 1.0`:                                         `1:7: args has no field amuont: did you mean amount?`,
		`spent("args.amount", "1h") < 1.0`:                                    `1:7: the field is written without args: "amount"`,
		`spent("payment.amuont", "1h") < 1.0`:                                 `1:7: args.payment has no field amuont: did you mean amount?`,
		`spent("currency", "1h") < 1.0`:                                       `1:7: spent sums numbers: args.currency is a string`,
		`spent("amount.x", "1h") < 1.0`:                                       `1:7: args.amount is a number, and has no field x`,
		`spent("items.price", "1h") < 1.0`:                                    `1:7: args.items is a list, and has no field price`,
		`distinct("items", "1h") < 1`:                                         `1:10: distinct counts texts, numbers and booleans: args.items[] is an object`,
		`distinct("payment", "1h") < 1`:                                       `1:10: distinct counts texts, numbers and booleans: args.payment is an object`,
		`spent("", "1h") < 1.0`:                                               `1:7: the field must be the path of an argument, such as "amount" or "payment.amount", not ""`,
		`spent("amount", "1 hour") < 1.0`:                                     `1:17: the window must be a number of s, m, h or d from 1s to 31d, such as "1h", not "1 hour"`,
		`spent("amount", "32d") < 1.0`:                                        `1:17: the window must be a number of s, m, h or d from 1s to 31d, such as "1h", not "32d"`,
		`spent("amount", "0s") < 1.0`:                                         `1:17: the window must be a number of s, m, h or d from 1s to 31d, such as "1h", not "0s"`,
		`calls("9999999d") < 1`:                                               `1:7: the window must be a number of s, m, h or d from 1s to 31d, such as "1h", not "9999999d"`,
		`calls(args.currency) < 1`:                                            `1:11: the window must be a text in quotes`,
		`spent(args.amount, "1h") < 1.0`:                                      `1:11: the field must be a text in quotes`,
		`calls("1h", "agents") < 1`:                                           `1:13: unknown group "agents": did you mean "agent"?`,
		`calls("1h", "") < 1`:                                                 `1:13: unknown group "": it must be one of "agent", "principal", "tool"`,
		`after("mail/") && true == true`:                                      `1:7: after takes a tool, or a skill and a tool: after("read_inbox"), after("mail/read_inbox")`,
		`spent("amount") < 1.0`:                                               `1:1: spent must be called as spent("field", "1h")`,
		`after() || args.amount > 1.0`:                                        `1:1: after must be called as after("tool")`,
		`spend("amount", "1h") < 1.0`:                                         `1:1: unknown function spend: did you mean spent?`,
		`calls("1h") < 10 && 1 < 2`:                                           `1:23: this part is the same for every call: remove it`,
		`calls("1h")`:                                                         `1:1: the condition must be true or false, not an integer`,
	} {
		p, err := schema.Compile(source)
		if err == nil && want == "" {
			if len(p.Queries()) == 0 {
				t.Errorf("%s: no queries", source)
			}
			continue
		}
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	if _, err := readSchema(t, "").Compile(`spent("amount", "1h") + args.amount <= 5000.0`); err != nil {
		t.Errorf("without a schema: %v", err)
	}
}

// answerAll answers the queries of a program from the arguments of earlier calls.
func answerAll(p *condition.Program, own string, earlier ...string) condition.Answers {
	answers := condition.Answers{}
	for _, q := range p.Queries() {
		if q.Function == condition.After {
			answers[q] = condition.AnswerYes(len(earlier) > 0)
			continue
		}
		tally := p.NewTally(q)
		for _, arguments := range earlier {
			tally.Add(tally.Read(json.RawMessage(arguments)))
		}
		if q.Function == condition.Distinct {
			tally.Add(tally.ReadOwn(json.RawMessage(own)))
		}
		answers[q] = tally.Answer()
	}
	return answers
}

func TestMemoryIsExact(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		schema, source, own string
		earlier             []string
		want                string
	}{
		{memorySchema, `spent("amount", "1h") == 0.0`, `{}`, nil, "true"},
		{memorySchema, `spent("amount", "1h") == 0.3`, `{}`, []string{`{"amount":0.1}`, `{"amount":0.2}`}, "true"}, // 0.1 + 0.2 in doubles is not 0.3
		{memorySchema, `spent("amount", "1h") + args.amount <= 5000.0`, `{"amount":1000}`, []string{`{"amount":2e3}`, `{"amount":2000.00}`}, "true"},
		{memorySchema, `spent("amount", "1h") + args.amount <= 5000.0`, `{"amount":1000.01}`, []string{`{"amount":2e3}`, `{"amount":2000.00}`}, "false"},
		{memorySchema, `spent("amount", "1h") == -2.5`, `{}`, []string{`{"amount":-5}`, `{"amount":2.5}`, `{"amount":-0.0}`}, "true"},
		{memorySchema, `spent("cents", "1h") == 9007199254740993`, `{}`, []string{`{"cents":9007199254740992}`, `{"cents":1.0}`}, "true"},
		{memorySchema, `spent("cents", "1h") > 0`, `{}`, []string{`{"cents":9223372036854775807}`, `{"cents":1}`}, "spent: the sum of args.cents must be between -9223372036854775808 and 9223372036854775807"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`{"amount":1e17}`, `{"amount":0.1}`}, "spent: the sum of args.amount has more digits than a number can hold"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`{"amount":1.7e308}`, `{"amount":1.7e308}`}, "spent: the sum of args.amount is too large for a number"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`{"amount":9007199254740993}`}, "spent: args.amount of an earlier call has more digits than a number can hold"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`{"amount":1}`, `{}`}, "spent: args.amount of an earlier call is missing"},
		{memorySchema, `spent("payment.tax", "1h") > 0.0`, `{}`, []string{`{"payment":{"tax":null}}`}, "spent: args.payment.tax of an earlier call is null"},
		{memorySchema, `spent("payment.tax", "1h") > 0.0`, `{}`, []string{`{"payment":5}`}, "spent: args.payment.tax of an earlier call is missing"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`{"amount":"100"}`}, "spent: args.amount of an earlier call is no number"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`{"amount":100,"Amount":5}`}, "spent: args.amount of an earlier call is given under a name that differs only in case, _ or -"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`{"amount":100,"amount":5}`}, "spent: args.amount of an earlier call has a name twice"},
		{memorySchema, `spent("amount", "1h") > 0.0`, `{}`, []string{`no JSON`}, "spent: args.amount of an earlier call must be JSON"},
		{memorySchema, `spent("amount", "1h") == 7.0`, `{}`, []string{"{\"amount\":7,\"to\":[\"\xff\"]}"}, "true"}, // a value beside it
		{``, `spent("amount", "1h") == 3`, `{}`, []string{`{"amount":1}`, `{"amount":2}`}, "true"},
		{``, `spent("amount", "1h") == 3.5`, `{}`, []string{`{"amount":1}`, `{"amount":2.5}`}, "true"},
		{``, `spent("amount", "1h") > 3`, `{}`, []string{`{"amount":9007199254740991}`, `{"amount":1}`}, "spent: the sum of args.amount must be smaller than 9007199254740992, because the tool's schema does not say which type it has"},
		{memorySchema, `calls("1h") == 2`, `{}`, []string{`{}`, `no JSON`}, "true"},
		{memorySchema, `distinct("to", "1h") == 3`, `{"to":["c","a"]}`, []string{`{"to":["a","b"]}`, `{"to":["b","b"]}`, `{"to":[]}`, `{}`, `{"to":null}`}, "true"},
		{memorySchema, `distinct("amount", "1h") == 1`, `{"amount":1}`, []string{`{"amount":1.0}`, `{"amount":10e-1}`}, "true"},
		{memorySchema, `distinct("any", "1h") == 4`, `{"any":"1"}`, []string{`{"any":1}`, `{"any":true}`, `{"any":false}`}, "true"},
		{memorySchema, `distinct("any", "1h") > 0`, `{"any":{}}`, nil, "distinct: args.any is an object, or a list of lists or objects"},
		{memorySchema, `distinct("any", "1h") == 2`, `{"any":"` + strings.Repeat("a", 100) + `"}`, []string{`{"any":"` + strings.Repeat("a", 101) + `"}`, `{"any":"` + strings.Repeat("a", 100) + `"}`}, "true"},
		{memorySchema, `after("read_inbox")`, `{}`, nil, "false"},
		{memorySchema, `after("read_inbox")`, `{}`, []string{`{}`}, "true"},
		{memorySchema, `args.currency == "EUR" && calls("1h") == 0`, `{"currency":"USD"}`, []string{`{}`}, "false"},
	} {
		schema := readSchema(t, tc.schema)
		p := mustCompile(t, schema, tc.source)
		holds, err := p.Match(t.Context(), condition.NewActivation(withArguments(tc.own)), answerAll(p, tc.own, tc.earlier...))
		got := strconv.FormatBool(holds)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s after %q: %s, want %s", tc.source, tc.earlier, got, tc.want)
		}
	}
}

// TestMemoryIsNeeded: a condition that depends on earlier calls fails as long as they were not read, whatever its form, and one that does not has
// its answer at once.
func TestMemoryIsNeeded(t *testing.T) {
	t.Parallel()
	schema := readSchema(t, memorySchema)
	const missing = "earlier calls were not read"
	for source, want := range map[string]string{
		`calls("1h") >= 0`:                                         "calls: " + missing,
		`!(calls("1h") >= 0)`:                                      "calls: " + missing,
		`spent("amount", "1h") <= 5.0 || after("x")`:               "spent: " + missing,
		`args.currency == "EUR" && spent("amount", "1h") <= 5.0`:   "false",
		`args.amount > 5.0 || distinct("to", "1h") > 3`:            "true",
		`args.to.all(a, a == "a" || distinct("to", "1h") > 3)`:     "distinct: " + missing,
		`(args.amount > 5.0 ? calls("1h") : 0) > 5`:                "calls: " + missing,
		`[calls("1h")] == [1] || 1 in [calls("1h"), args.cents]`:   "calls: " + missing,
		`{"a": calls("1h")} != {"a": 1}`:                           "calls: " + missing,
		`string(calls("1h")) == "0" || double(calls("1h")) == 0.0`: "calls: " + missing,
	} {
		if got := match(t, schema, source, withArguments(`{"amount":10,"cents":1,"currency":"USD","to":["b"]}`)); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

// TestTallyForgets: after calls were removed, a tally has the answer for the others.
func TestTallyForgets(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, readSchema(t, memorySchema), `spent("amount", "1h") > 0.0 && distinct("to", "1h") > 0 && calls("1h") > 0`)
	random := rand.New(rand.NewPCG(1, 2))
	for _, q := range p.Queries() {
		tally := p.NewTally(q)
		var held []condition.Share
		var texts []string
		for range 2000 {
			if len(held) > 0 && random.IntN(2) == 0 {
				i := random.IntN(len(held))
				tally.Remove(held[i])
				held, texts = append(held[:i:i], held[i+1:]...), append(texts[:i:i], texts[i+1:]...)
			} else {
				arguments := fmt.Sprintf(`{"amount":%de%d,"to":["%d"]}`, random.IntN(2000)-1000, random.IntN(12)-6, random.IntN(5))
				if random.IntN(50) == 0 {
					arguments = `{"amount":"x","to":[[]]}`
				}
				share := tally.Read(json.RawMessage(arguments))
				tally.Add(share)
				held, texts = append(held, share), append(texts, arguments)
			}
			fresh := p.NewTally(q)
			for _, arguments := range texts {
				fresh.Add(fresh.Read(json.RawMessage(arguments)))
			}
			if got, want := tally.Answer(), fresh.Answer(); !reflect.DeepEqual(got, want) { //nolint:govet // deepequalerrors: reasons are texts
				t.Fatalf("%v of %q: %v, want %v", q, texts, got, want)
			}
		}
	}
}

func TestParseWindow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "90s": 90 * time.Second, "15m": 15 * time.Minute, "1h": time.Hour, "31d": condition.MaxWindow, "744h": condition.MaxWindow,
		"0s": 0, "745h": 0, "1": 0, "h": 0, "1w": 0, "-1h": 0, "1.5h": 0, "1h30m": 0, "1h\x20": 0, "99999999s": 0,
	} {
		if got, err := condition.ParseWindow(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

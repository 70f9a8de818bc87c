package condition_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
)

// answer is what a rule should say about a call.
type answer string

const (
	yes  answer = "true"
	no   answer = "false"
	fail answer = "error"
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// CEL's && and || give an answer if one side decides, whatever the other side is.
func and(list ...answer) answer {
	result := yes
	for _, a := range list {
		if a == no {
			return no
		}
		if a == fail {
			result = fail
		}
	}
	return result
}

func or(list ...answer) answer {
	negated := make([]answer, len(list))
	for i, a := range list {
		negated[i] = not(a)
	}
	return not(and(negated...))
}

func not(a answer) answer {
	switch a {
	case yes:
		return no
	case no:
		return yes
	}
	return fail
}

// value is a JSON value of the generator. The oracle judges it, and never sees JSON.
type value struct {
	kind     byte // s, n, b, 0 (null), a, o, ! (raw text that no condition may use)
	text     string
	flag     bool
	names    []string
	children []*value
}

func (v *value) render(b *strings.Builder) {
	switch v.kind {
	case 's':
		quoted, _ := json.Marshal(v.text)
		b.Write(quoted)
	case 'n', '!':
		b.WriteString(v.text)
	case 'b':
		b.WriteString(strconv.FormatBool(v.flag))
	case '0':
		b.WriteString("null")
	case 'a', 'o':
		brackets := map[byte]string{'a': "[]", 'o': "{}"}[v.kind]
		b.WriteByte(brackets[0])
		for i, child := range v.children {
			if i > 0 {
				b.WriteByte(',')
			}
			if v.kind == 'o' {
				fmt.Fprintf(b, "%q:", v.names[i])
			}
			child.render(b)
		}
		b.WriteByte(brackets[1])
	}
}

func (v *value) get(name string) *value {
	if v == nil || v.kind != 'o' {
		return nil
	}
	for i, candidate := range v.names {
		if candidate == name {
			return v.children[i]
		}
	}
	return nil
}

// call is a generated call.
type call struct {
	args      *value
	broken    bool // the arguments have a name twice
	agent     string
	principal *condition.Principal
	readOnly  *bool
	hour      int
}

func (c *call) field(name string) *value {
	if c.broken {
		return nil
	}
	return c.args.get(name)
}

func (c *call) has(name string) answer {
	if c.broken {
		return fail
	}
	return answerOf(c.args.get(name) != nil)
}

// rational returns the exact value of a number's text. Exponents beyond reason are none.
func rational(text string) (*big.Rat, bool) {
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		if strings.Trim(text[:at], "-0.") == "" {
			return new(big.Rat), true
		}
		if exponent, err := strconv.Atoi(text[at+1:]); err != nil || exponent > 400 || exponent < -400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// number is the value of a field of type number, if a double has it exactly.
func number(v *value) (*big.Rat, bool) {
	if v == nil || v.kind != 'n' {
		return nil, false
	}
	r, ok := rational(v.text)
	if !ok {
		return nil, false
	}
	f, err := strconv.ParseFloat(v.text, 64)
	if err != nil {
		return nil, false
	}
	shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
	return r, shortest.Cmp(r) == 0
}

// integer is the value of a field of type integer.
func integer(v *value) (*big.Rat, bool) {
	if v == nil || v.kind != 'n' {
		return nil, false
	}
	r, ok := rational(v.text)
	return r, ok && r.IsInt() && r.Num().IsInt64()
}

// untyped is the value of a number without a schema.
func untyped(v *value) (*big.Rat, bool) {
	if v == nil || v.kind != 'n' {
		return nil, false
	}
	r, ok := number(v)
	if !strings.ContainsAny(v.text, ".eE") {
		r, ok = integer(v)
	}
	return r, ok && new(big.Rat).Abs(r).Cmp(big.NewRat(1<<53, 1)) < 0
}

func text(v *value) (string, bool) {
	if v == nil || v.kind != 's' {
		return "", false
	}
	return v.text, true
}

func boolean(v *value) answer {
	if v == nil || v.kind != 'b' {
		return fail
	}
	return answerOf(v.flag)
}

// test applies a test to a value, or fails without one.
func test[T any](ok func(T) bool) func(v T, found bool) answer {
	return func(v T, found bool) answer {
		if !found {
			return fail
		}
		return answerOf(ok(v))
	}
}

func rat(text string) *big.Rat {
	r, _ := new(big.Rat).SetString(text)
	return r
}

func above(limit string) func(*big.Rat, bool) answer {
	return test(func(r *big.Rat) bool { return r.Cmp(rat(limit)) > 0 })
}

func equals(other string) func(*big.Rat, bool) answer {
	return test(func(r *big.Rat) bool { return r.Cmp(rat(other)) == 0 })
}

func is(other string) func(string, bool) answer {
	return test(func(s string) bool { return s == other })
}

// texts is the value of a list of strings: one bad element makes it bad.
func texts(v *value) ([]string, bool) {
	if v == nil || v.kind != 'a' {
		return nil, false
	}
	var list []string
	for _, child := range v.children {
		s, ok := text(child)
		if !ok {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// usable reports whether a value without a schema may be used as a whole.
func usable(v *value) bool {
	switch v.kind {
	case '!':
		return false
	case 'n':
		_, ok := untyped(v)
		return ok
	}
	for _, child := range v.children {
		if !usable(child) {
			return false
		}
	}
	return true
}

// items is the list of objects: every member of each must be usable, because the list is used as a whole.
func items(v *value) ([]*value, bool) {
	if v == nil || v.kind != 'a' {
		return nil, false
	}
	for _, item := range v.children {
		if item.kind != 'o' {
			return nil, false
		}
		for i, name := range item.names {
			ok := usable(item.children[i])
			switch name {
			case "price":
				_, ok = number(item.children[i])
			case "qty":
				_, ok = integer(item.children[i])
			case "name":
				_, ok = text(item.children[i])
			}
			if !ok {
				return nil, false
			}
		}
	}
	return v.children, true
}

func exists[T any](list []T, found bool, judge func(T) answer) answer {
	if !found {
		return fail
	}
	result := no
	for _, one := range list {
		result = or(result, judge(one))
	}
	return result
}

func all[T any](list []T, found bool, judge func(T) answer) answer {
	return not(exists(list, found, func(one T) answer { return not(judge(one)) }))
}

// mailDomain is a plain reading of the addresses that the generator makes.
func mailDomain(s string) (string, bool) {
	known := map[string]string{
		"ada@example.com": "example.com", "Eve <eve@Evil.example>": "evil.example", "https://docs.example.com/a?b": "docs.example.com",
		"https://example.com@evil.example/": "evil.example", "ada@EXAMPLE.com": "example.com", "http://0x7f.1/": "127.0.0.1",
	}
	d, ok := known[s]
	return d, ok
}

// below knows which of the generator's paths lie below /srv/agent.
func below(s string) (bool, bool) {
	switch s {
	case "/srv/agent/a.txt", "/srv/agent/x/../b", "/srv//agent/./c":
		return true, true
	case "/srv/agent", "/srv/agent/../secret", "/srv/agent2/a", "/etc/passwd", "/../srv/agent":
		return false, true
	}
	return false, false // relative, encoded, or otherwise not plain
}

// reading are the generator's SQL texts that only read.
func onlyReads(s string) bool {
	return s == "SELECT id FROM accounts WHERE owner = 'drop table x'" || s == "with a as (select 1) select count(*) from a" || s == "select 1; select 2;"
}

// rule is a condition and the oracle's reading of it.
type rule struct {
	source  string
	untyped bool // compiled without the schema
	judge   func(c *call) answer
}

const oracleSchema = `{"type":"object","required":["amount"],"properties":{
	"amount":{"type":"number"},
	"count":{"type":"integer"},
	"currency":{"type":"string","enum":["EUR","USD","GBP"]},
	"memo":{"type":["string","null"]},
	"score":{"anyOf":[{"type":"number"},{"type":"null"}]},
	"ok":{"type":"boolean"},
	"to":{"type":"array","items":{"type":"string"}},
	"path":{"type":"string"},
	"sql":{"type":"string"},
	"items":{"type":"array","items":{"type":"object","properties":{"price":{"type":"number"},"qty":{"type":"integer"},"name":{"type":"string"}}}},
	"customer":{"type":"object","properties":{"id":{"type":"integer"},"vip":{"type":"boolean"}}},
	"limits":{"type":"object","additionalProperties":{"type":"number"}},
	"pairs":{"type":"array","maxItems":100,"items":{"type":"integer"}},
	"any":{}
}}`

//nolint:maintidx // a table
func oracleRules() []rule {
	amount := func(c *call) (*big.Rat, bool) { return number(c.field("amount")) }
	count := func(c *call) (*big.Rat, bool) { return integer(c.field("count")) }
	currency := func(c *call) (string, bool) { return text(c.field("currency")) }
	path := func(c *call) (string, bool) { return text(c.field("path")) }
	anything := func(c *call) (*big.Rat, bool) { return untyped(c.field("any")) }
	// comparable is a value without a schema that == can compare: of another type it differs.
	isNumber := func(c *call, other string) answer {
		v := c.field("any")
		if v == nil || !usable(v) {
			return fail
		}
		r, ok := untyped(v)
		return answerOf(ok && r.Cmp(rat(other)) == 0)
	}
	customer := func(c *call, name string) *value {
		v := c.field("customer")
		if v == nil || v.kind != 'o' {
			return nil
		}
		return v.get(name)
	}
	price := func(limit string) func(*value) answer {
		return func(v *value) answer { return above(limit)(number(v.get("price"))) }
	}
	within := func(s string, ok bool) answer {
		inside, plain := below(s)
		if !ok || !plain {
			return fail
		}
		return answerOf(inside)
	}
	mail := func(other string) func(string) answer {
		return func(s string) answer { return is(other)(mailDomain(s)) }
	}
	to := func(c *call) ([]string, bool) { return texts(c.field("to")) }
	first := func(c *call) *value {
		v := c.field("items")
		if v == nil || v.kind != 'a' || len(v.children) == 0 {
			return nil
		}
		return v.children[0]
	}
	return []rule{
		{`args.amount <= 100.0`, false, func(c *call) answer { return not(above("100")(amount(c))) }},
		{`args.amount > 1000000.0`, false, func(c *call) answer { return above("1000000")(amount(c)) }},
		{`args.amount == 9007199254740992.0`, false, func(c *call) answer { return equals("9007199254740992")(amount(c)) }},
		{`args.amount != 9007199254740992.0`, false, func(c *call) answer { return not(equals("9007199254740992")(amount(c))) }},
		{`args.amount == 0.0`, false, func(c *call) answer { return equals("0")(amount(c)) }},
		{`args.amount < 0.0 || args.amount > 0.1`, false, func(c *call) answer {
			return or(and(not(above("0")(amount(c))), not(equals("0")(amount(c)))), above("0.1")(amount(c)))
		}},
		{`args.count == 9007199254740993`, false, func(c *call) answer { return equals("9007199254740993")(count(c)) }},
		{`args.count > 9007199254740992`, false, func(c *call) answer { return above("9007199254740992")(count(c)) }},
		{`args.count in [1, 100, 9007199254740993]`, false, func(c *call) answer {
			return or(equals("1")(count(c)), equals("100")(count(c)), equals("9007199254740993")(count(c)))
		}},
		{`args.count + 1 > 0`, false, func(c *call) answer {
			r, ok := count(c)
			if ok && r.Cmp(rat("9223372036854775807")) == 0 {
				return fail // overflow
			}
			return above("-1")(r, ok)
		}},
		{`args.amount <= 100.0 && args.currency == "EUR"`, false, func(c *call) answer {
			return and(not(above("100")(amount(c))), is("EUR")(currency(c)))
		}},
		{`args.currency != "EUR"`, false, func(c *call) answer { return not(is("EUR")(currency(c))) }},
		{`args.currency in ["EUR", "USD"]`, false, func(c *call) answer { return or(is("EUR")(currency(c)), is("USD")(currency(c))) }},
		{`!(args.currency in ["EUR", "USD"])`, false, func(c *call) answer { return not(or(is("EUR")(currency(c)), is("USD")(currency(c)))) }},
		{`has(args.memo)`, false, func(c *call) answer { return c.has("memo") }},
		{`!has(args.memo)`, false, func(c *call) answer { return not(c.has("memo")) }},
		{`args.memo == null`, false, func(c *call) answer {
			v := c.field("memo")
			if v == nil || v.kind != '0' && v.kind != 's' {
				return fail
			}
			return answerOf(v.kind == '0')
		}},
		{`args.memo != "paid"`, false, func(c *call) answer {
			v := c.field("memo")
			if v == nil || v.kind != '0' && v.kind != 's' {
				return fail
			}
			return answerOf(v.text != "paid" || v.kind == '0')
		}},
		{`args.memo.startsWith("in")`, false, func(c *call) answer {
			return test(func(s string) bool { return strings.HasPrefix(s, "in") })(text(c.field("memo")))
		}},
		{`has(args.score) && args.score != null && args.score > 0.5`, false, func(c *call) answer {
			v := c.field("score")
			notNull := fail
			if _, isNumber := number(v); isNumber || v != nil && v.kind == '0' {
				notNull = answerOf(isNumber)
			}
			return and(c.has("score"), notNull, above("0.5")(number(v)))
		}},
		{`args.ok`, false, func(c *call) answer { return boolean(c.field("ok")) }},
		{`!args.ok`, false, func(c *call) answer { return not(boolean(c.field("ok"))) }},
		{`args.ok || args.amount > 5.0`, false, func(c *call) answer { return or(boolean(c.field("ok")), above("5")(amount(c))) }},
		{`args.ok ? args.amount > 5.0 : args.count > 5`, false, func(c *call) answer {
			switch boolean(c.field("ok")) {
			case yes:
				return above("5")(amount(c))
			case no:
				return above("5")(count(c))
			}
			return fail
		}},
		{`args.to.all(a, domain(a) == "example.com")`, false, func(c *call) answer {
			list, ok := to(c)
			return all(list, ok, mail("example.com"))
		}},
		{`args.to.exists(a, domain(a) != "example.com")`, false, func(c *call) answer {
			list, ok := to(c)
			return exists(list, ok, func(s string) answer { return not(mail("example.com")(s)) })
		}},
		{`size(args.to) == 1 && domain(args.to[0]) == "example.com"`, false, func(c *call) answer {
			list, ok := to(c)
			size, head := fail, fail
			if ok {
				size = answerOf(len(list) == 1)
			}
			if v := c.field("to"); v != nil && v.kind == 'a' && len(v.children) > 0 {
				if s, isText := text(v.children[0]); isText {
					head = mail("example.com")(s)
				}
			}
			return and(size, head)
		}},
		{`"ada@example.com" in args.to`, false, func(c *call) answer {
			list, ok := to(c)
			return exists(list, ok, func(s string) answer { return answerOf(s == "ada@example.com") })
		}},
		{`!("ada@example.com" in args.to)`, false, func(c *call) answer {
			list, ok := to(c)
			return all(list, ok, func(s string) answer { return answerOf(s != "ada@example.com") })
		}},
		{`args.to != ["ada@example.com"]`, false, func(c *call) answer {
			list, ok := to(c)
			return test(func(list []string) bool { return len(list) != 1 || list[0] != "ada@example.com" })(list, ok)
		}},
		{`args.to.all(a, a in ["ada@example.com", "ada@EXAMPLE.com"])`, false, func(c *call) answer {
			list, ok := to(c)
			return all(list, ok, func(s string) answer { return answerOf(strings.EqualFold(s, "ada@example.com")) })
		}},
		{`within(args.path, "/srv/agent")`, false, func(c *call) answer { return within(path(c)) }},
		{`!within(args.path, "/srv/agent")`, false, func(c *call) answer { return not(within(path(c))) }},
		{`args.path.matches("^/srv/agent/[a-z]+[.]txt$")`, false, func(c *call) answer { return is("/srv/agent/a.txt")(path(c)) }},
		{`writesSQL(args.sql)`, false, func(c *call) answer { return not(test(onlyReads)(text(c.field("sql")))) }},
		{`!writesSQL(args.sql)`, false, func(c *call) answer { return test(onlyReads)(text(c.field("sql"))) }},
		{`args.items.exists(i, i.price > 10.0)`, false, func(c *call) answer {
			list, ok := items(c.field("items"))
			return exists(list, ok, price("10"))
		}},
		{`args.items.all(i, i.price > 10.0 && i.qty < 9007199254740993)`, false, func(c *call) answer {
			list, ok := items(c.field("items"))
			return all(list, ok, func(v *value) answer {
				return and(price("10")(v), not(above("9007199254740992")(integer(v.get("qty")))))
			})
		}},
		{`args.items[0].price > 10.0`, false, func(c *call) answer { return price("10")(first(c)) }},
		{`has(args.items[0].price)`, false, func(c *call) answer {
			if v := first(c); v == nil || v.kind != 'o' {
				return fail
			}
			return answerOf(first(c).get("price") != nil)
		}},
		{`args.customer.vip && args.customer.id == 7`, false, func(c *call) answer {
			return and(boolean(customer(c, "vip")), equals("7")(integer(customer(c, "id"))))
		}},
		{`has(args.customer) && !has(args.customer.vip)`, false, func(c *call) answer {
			v := c.field("customer")
			inner := fail
			if v != nil && v.kind == 'o' {
				inner = answerOf(v.get("vip") == nil)
			}
			return and(c.has("customer"), inner)
		}},
		{`args.limits.day >= 100.0`, false, func(c *call) answer {
			v := c.field("limits")
			r, ok := number(v.get("day"))
			return or(above("100")(r, ok), equals("100")(r, ok))
		}},
		{`args.pairs.all(a, args.pairs.all(b, a + b < 1000000))`, false, func(c *call) answer {
			v := c.field("pairs")
			if v == nil || v.kind != 'a' || len(v.children) > 100 { // more cost too much
				return fail
			}
			for _, child := range v.children {
				if _, ok := integer(child); !ok {
					return fail
				}
			}
			return all(v.children, true, func(x *value) answer {
				return all(v.children, true, func(y *value) answer {
					a, _ := integer(x)
					b, _ := integer(y)
					sum := new(big.Rat).Add(a, b)
					if !sum.Num().IsInt64() {
						return fail
					}
					return not(above("999999")(sum, true))
				})
			})
		}},
		{`args.any == 5`, false, func(c *call) answer { return isNumber(c, "5") }},
		{`args.any != 5.0`, false, func(c *call) answer { return not(isNumber(c, "5")) }},
		{`args.any > 9007199254740990`, true, func(c *call) answer { return above("9007199254740990")(anything(c)) }},
		{`args.any > 9007199254740990.0`, true, func(c *call) answer { return above("9007199254740990")(anything(c)) }},
		{`args.amount <= 100`, true, func(c *call) answer { return not(above("100")(untyped(c.field("amount")))) }},
		{`args.amount == args.count`, true, func(c *call) answer {
			x, y := c.field("amount"), c.field("count")
			if x == nil || y == nil || !usable(x) || !usable(y) {
				return fail
			}
			a, aNumber := untyped(x)
			b, bNumber := untyped(y)
			if aNumber != bNumber {
				return no
			}
			if aNumber {
				return answerOf(a.Cmp(b) == 0)
			}
			return answerOf(sameValue(x, y))
		}},
		{`args.customer.id == 7`, true, func(c *call) answer {
			v := customer(c, "id")
			if v == nil || !usable(v) {
				return fail
			}
			r, ok := untyped(v)
			return answerOf(ok && r.Cmp(rat("7")) == 0)
		}},
		{`has(args.memo) || args.ok == true`, true, func(c *call) answer {
			ok := fail
			if v := c.field("ok"); v != nil && usable(v) {
				ok = answerOf(v.kind == 'b' && v.flag)
			}
			return or(c.has("memo"), ok)
		}},
		{`agent == "night-bot" && (now.getHours("Europe/Berlin") < 6 || now.getHours("Europe/Berlin") >= 22)`, false, func(c *call) answer {
			return answerOf(c.agent == "night-bot" && (c.hour < 6 || c.hour >= 22))
		}},
		{`principal.email.endsWith("@example.com") && "finance" in principal.groups`, false, func(c *call) answer {
			if c.principal == nil {
				return fail
			}
			email := fail
			if c.principal.Email != "" {
				email = answerOf(strings.HasSuffix(c.principal.Email, "@example.com"))
			}
			return and(email, exists(c.principal.Groups, true, func(g string) answer { return answerOf(g == "finance") }))
		}},
		{`!("finance" in principal.groups)`, false, func(c *call) answer {
			if c.principal == nil {
				return fail
			}
			return all(c.principal.Groups, true, func(g string) answer { return answerOf(g != "finance") })
		}},
		{`claimed.read_only`, false, func(c *call) answer {
			if c.readOnly == nil {
				return fail
			}
			return answerOf(*c.readOnly)
		}},
		{`!has(claimed.read_only) || args.amount > 100.0`, false, func(c *call) answer {
			return or(answerOf(c.readOnly == nil), above("100")(amount(c)))
		}},
	}
}

// sameValue compares values without a schema that are no numbers.
func sameValue(x, y *value) bool {
	var a, b strings.Builder
	x.render(&a)
	y.render(&b)
	return x.kind == y.kind && a.String() == b.String()
}

// generator makes calls that try to fool conditions.
type generator struct{ *rand.Rand }

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

func numberValue(text string) *value { return &value{kind: 'n', text: text} }

func textValue(text string) *value { return &value{kind: 's', text: text} }

func (g generator) hostileNumber() *value {
	return numberValue(pick(g,
		"9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740993.0", "9007199254740992.5", "-0", "-0.0", "0e0", "-0e99999999999999999999",
		"1.0", "1e2", "100", "100.0", "100.00000000000001", "100.000000000000000001", "1e400", "-1e400", "1e-400", "0.1", "0.1000000000000000055511151231257827",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "1e18", "1e19",
		"7", "5", "5.0", "5e0", "50e-1", "1.5", "99999999999999999999999999", "1e99999999999999999999", "1e-99999999999999999999", "123456789012345678"))
}

// hostile returns any value.
func (g generator) hostile() *value {
	switch g.IntN(9) {
	case 0, 1, 2:
		return g.hostileNumber()
	case 3:
		return &value{kind: '0'}
	case 4:
		return textValue(pick(g, "", "5", "100", "true", "null", "EUR", "ada@example.com", "finance", "\u0000", "\U0010FFFF", strings.Repeat("x", 5000)))
	case 5:
		return &value{kind: 'b', flag: g.IntN(2) == 0}
	case 6:
		deep := &value{kind: '!', text: strings.Repeat("[", 110) + strings.Repeat("]", 110)}
		return pick(g, &value{kind: '!', text: "\"\xff\""}, &value{kind: '!', text: `"\ud800"`},
			&value{kind: 'a', children: []*value{deep}}, &value{kind: 'o', names: []string{"a"}, children: []*value{deep}})
	case 7:
		return g.list(g.IntN(3), g.hostile)
	default:
		return &value{kind: 'o', names: []string{"id", "day"}, children: []*value{g.hostileNumber(), g.hostile()}}
	}
}

func (g generator) list(n int, one func() *value) *value {
	v := &value{kind: 'a'}
	for range n {
		v.children = append(v.children, one())
	}
	return v
}

func (g generator) object(fields map[string]func() *value, names ...string) *value {
	v := &value{kind: 'o'}
	for _, name := range names {
		switch g.IntN(8) {
		case 0: // missing
		case 1:
			v.names, v.children = append(v.names, name), append(v.children, g.hostile())
		default:
			v.names, v.children = append(v.names, name), append(v.children, fields[name]())
		}
	}
	return v
}

func (g generator) arguments() *value {
	amount := func() *value {
		return pick(g, numberValue(pick(g, "50", "99.99", "100.01", "1000001", "0", "7")), g.hostileNumber())
	}
	flag := func() *value { return &value{kind: 'b', flag: g.IntN(2) == 0} }
	address := func() *value {
		return textValue(pick(g, "ada@example.com", "ada@example.com", "ada@example.com", "ada@EXAMPLE.com", "Eve <eve@Evil.example>", "https://docs.example.com/a?b",
			"https://example.com@evil.example/", "http://0x7f.1/", "not an address", "a@b@example.com", "http://evil.example\\@example.com/", "https://example.com%2eevil.example/"))
	}
	return g.object(map[string]func() *value{
		"amount":   amount,
		"count":    func() *value { return pick(g, numberValue(pick(g, "1", "6", "100")), g.hostileNumber()) },
		"currency": func() *value { return textValue(pick(g, "EUR", "USD", "GBP", "eur")) },
		"memo":     func() *value { return pick(g, textValue("paid"), textValue("invoice 7"), &value{kind: '0'}) },
		"score":    func() *value { return pick(g, amount(), &value{kind: '0'}) },
		"ok":       flag,
		"to":       func() *value { return g.list(g.IntN(4), address) },
		"path": func() *value {
			return textValue(pick(g, "/srv/agent/a.txt", "/srv/agent/x/../b", "/srv//agent/./c", "/srv/agent", "/srv/agent/../secret", "/srv/agent2/a", "/etc/passwd", "/../srv/agent",
				"a.txt", "../a", "/srv/agent/%2e%2e/x", "/srv/agent/..\\x", "/srv/agent/a\x00.txt", "/srv/agent/\uFF0E\uFF0E/x", " /srv/agent/a", "~/a", "file:///srv/agent/a", ""))
		},
		"sql": func() *value {
			return textValue(pick(g, "SELECT id FROM accounts WHERE owner = 'drop table x'", "with a as (select 1) select count(*) from a", "select 1; select 2;", "select 1; drop table x",
				"DELETE FROM accounts", "select 1 -- ; drop table x", "select a into x from y", "select evil(1)", "with a as (delete from b returning b) select b from a", "", "explain analyze delete from x", "select '\\'; drop table x; --'"))
		},
		"items": func() *value {
			return g.list(g.IntN(3), func() *value {
				return g.object(map[string]func() *value{"price": amount, "qty": amount, "name": address, "extra": g.hostile}, "price", "qty", "name", "extra")
			})
		},
		"customer": func() *value {
			return g.object(map[string]func() *value{"id": func() *value { return numberValue("7") }, "vip": flag}, "id", "vip")
		},
		"limits": func() *value { return g.object(map[string]func() *value{"day": amount}, "day") },
		"pairs": func() *value {
			if g.IntN(1000) == 0 {
				return g.list(800, func() *value { return numberValue("1") })
			}
			return g.list(g.IntN(5), func() *value { return numberValue(pick(g, "1", "2", "3", "999999", "9223372036854775807")) })
		},
		"any": g.hostile,
	}, "amount", "count", "currency", "memo", "score", "ok", "to", "path", "sql", "items", "customer", "limits", "pairs", "any")
}

func (g generator) call() (*call, *condition.Input) {
	c := &call{args: g.arguments(), agent: pick(g, "night-bot", "day-bot"), hour: g.IntN(24)}
	switch g.IntN(3) {
	case 0:
		c.principal = &condition.Principal{ID: "1", Email: pick(g, "ada@example.com", "eve@evil.example", ""), Groups: pick(g, []string{"finance", "staff"}, []string{"staff"}, nil)}
	case 1:
		readOnly := g.IntN(2) == 0
		c.readOnly = &readOnly
	}
	var b strings.Builder
	c.args.render(&b)
	raw := b.String()
	if g.IntN(200) == 0 {
		c.broken = true
		raw = `{"amount":1,"amount":2}`
	}
	return c, &condition.Input{
		Arguments: json.RawMessage(raw), Agent: c.agent, Skill: "ledger", Tool: "post", Principal: c.principal,
		Claimed: condition.Hints{ReadOnly: c.readOnly},
		Now:     time.Date(2026, 11, 26, c.hour, 30, 0, 0, time.FixedZone("Berlin in winter", 3600)),
	}
}

// No argument makes a condition true that is not, and none makes an answer of an error.
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	const calls = 10_000
	rules := oracleRules()
	if len(rules) < 50 {
		t.Fatalf("%d rules, want 50", len(rules))
	}
	schema := readSchema(t, oracleSchema)
	anything := readSchema(t, "")
	programs := make([]*condition.Program, len(rules))
	for i, r := range rules {
		against := schema
		if r.untyped {
			against = anything
		}
		programs[i] = mustCompile(t, against, r.source)
	}
	const shards = 4
	var mu sync.Mutex
	seen := make([]map[answer]int, len(rules))
	for i := range seen {
		seen[i] = make(map[answer]int)
	}
	t.Run("shards", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				g := generator{rand.New(rand.NewPCG(53, uint64(shard)))}
				for range calls / shards {
					c, in := g.call()
					activation := condition.NewActivation(in)
					for i, r := range rules {
						want := r.judge(c)
						holds, err := programs[i].Match(t.Context(), activation, nil)
						got := answerOf(holds)
						if err != nil {
							got = fail
						}
						if err != nil && holds {
							t.Fatalf("%s holds with the error %v", r.source, err)
						}
						if without, withoutErr := programs[i].Interpret(t.Context(), activation, nil); without != holds || (withoutErr == nil) != (err == nil) {
							t.Fatalf("%s is %t (%v) with the shortcut, %t (%v) without, for %.2000s", r.source, holds, err, without, withoutErr, in.Arguments)
						}
						if got != want {
							t.Fatalf("%s is %s (%v), want %s, for %.2000s", r.source, got, err, want, in.Arguments)
						}
						mu.Lock()
						seen[i][want]++
						mu.Unlock()
					}
				}
			})
		}
	})
	for i, r := range rules {
		alwaysClear := strings.HasPrefix(r.source, "agent ")
		if seen[i][yes] == 0 || seen[i][no] == 0 || seen[i][fail] == 0 && !alwaysClear {
			t.Errorf("%s: the generator made only %v", r.source, seen[i])
		}
	}
}

// Rules of all processes' goroutines share what is compiled and decoded.
func TestSharedByGoroutines(t *testing.T) {
	t.Parallel()
	anything := readSchema(t, "")
	programs := []*condition.Program{mustCompile(t, anything, `args.any > 5`)}
	schema := readSchema(t, oracleSchema)
	for _, r := range oracleRules() {
		if !r.untyped {
			programs = append(programs, mustCompile(t, schema, r.source))
		}
	}
	g := generator{rand.New(rand.NewPCG(53, 2))}
	for range 20 {
		_, in := g.call()
		activation := condition.NewActivation(in)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for _, p := range programs {
					if holds, err := p.Match(t.Context(), activation, nil); holds && err != nil {
						t.Errorf("%s holds with the error %v", p.Source(), err)
					}
				}
			})
		}
		group.Wait()
	}
}

package present_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
)

func TestDescribeCondition(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`args.amount <= 100.0 && args.currency == "EUR"`:                `the argument amount is at most 100 and the argument currency is "EUR"`,
		`100.0 < args.amount`:                                           `the argument amount is more than 100`,
		`!(args.amount >= 1000.5)`:                                      `the argument amount is less than 1,000.5`,
		`!(args.amount < 5) && args.n > -1`:                             `the argument amount is at least 5 and the argument n is more than -1`,
		`args.currency != "EUR" || args.dry_run`:                        `the argument currency is not "EUR" or the argument dry_run is true`,
		`!args.dry_run && args.a == false && args.b != true`:            `the argument dry_run is not true and the argument a is not true and the argument b is not true`,
		`args.currency in ["EUR", "USD"]`:                               `the argument currency is one of "EUR", "USD"`,
		`!(args.currency in ["EUR", "USD"])`:                            `the argument currency is none of "EUR", "USD"`,
		`args.currency in ["EUR"]`:                                      `the argument currency is "EUR"`,
		`principal != null && "finance" in principal.groups`:            `the call is made on behalf of a person and the person’s teams include "finance"`,
		`principal == null || principal.email.endsWith("@example.com")`: `the call is made on behalf of nobody or the person’s email address ends with "@example.com"`,
		`args.memo == null && agent == "billing"`:                       `the argument memo is null and the agent is "billing"`,
		`!has(args.memo) || has(args.limits.day)`:                       `the argument memo is missing or the argument limits.day is given`,
		`args.a && (args.b || args.c)`:                                  `the argument a is true and (the argument b is true or the argument c is true)`,
		`!(args.a && args.b)`:                                           `it is not true that (the argument a is true and the argument b is true)`,
		`args.to.all(a, domain(a) == "example.com")`:                    `for every element a of the argument to: the domain of a is "example.com"`,
		`!args.to.exists(a, a == "x") && tool == "t"`:                   `(for no element a of the argument to: a is "x") and the tool is "t"`,
		`args.items.exists_one(i, i.price > 50.0)`:                      `for exactly one element i of the argument items: i.price is more than 50`,
		`args.to.filter(a, a.contains("x")).size() > 2`:                 `the length of the elements a of the argument to for which a contains "x" is more than 2`,
		`size(args.to.map(a, a.lowerAscii())) == 1`:                     `the length of a in lower case for each element a of the argument to is 1`,
		`args.name.matches("^a+$")`:                                     `the argument name matches the pattern "^a+$"`,
		`!within(args.path, "/srv")`:                                    `the argument path does not lie below "/srv"`,
		`!writesSQL(args.sql)`:                                          `the argument sql is SQL that only reads`,
		`now.getDayOfWeek("Europe/Berlin") in [0, 6]`:                   `the weekday in Europe/Berlin is one of Sunday, Saturday`,
		`now.getDayOfWeek() > 4`:                                        `the weekday, counted from Sunday as 0 in UTC is more than 4`,
		`now.getMonth("UTC") != 11`:                                     `the month in UTC is not December`,
		`now.getHours("Asia/Tokyo") < 8`:                                `the hour in Asia/Tokyo is less than 8`,
		`now > timestamp("2026-01-31T08:00:00Z")`:                       `the time is more than the time 2026-01-31T08:00:00Z`,
		`timestamp(args.at) - now < duration("1h30m")`:                  `the time the argument at - the time is less than the duration 1h30m`,
		`math.abs(args.x) * 2.0 + 1.0 > 3.0`:                            `(the absolute value of the argument x * 2) + 1 is more than 3`,
		`-args.x > 1.0 && args.n % 2 == 0`:                              `-the argument x is more than 1 and the argument n % 2 is 0`,
		`args.a ? args.b : args.c == 1`:                                 `if the argument a is true, then the argument b is true, otherwise the argument c is 1`,
		`has(claimed.read_only) && !claimed.read_only`:                  `the server’s claim read_only is given and the server’s claim read_only is not true`,
		"args.`from-date`.trim().split(\",\")[0] == \"x\"":              "args.`from-date`.trim().split(\",\")[0] is \"x\"",
		`args.rows[0].n == int(args.m)`:                                 `the argument rows[0].n is the argument m`,
		`args.limits["a b"] == string(args.n)`:                          `the argument limits["a b"] is the argument n as text`,
		`args.iban.replace(" ", "") == "DE\u200b"`:                      `the argument iban with " " replaced by "" is "DE\u200b"`,
		`args.amount <=`:                                                `args.amount <= is true`,
	} {
		if got := present.DescribeCondition(source).String(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", source, got, want)
		}
	}
}

// Each function has a sentence and an explanation in every language, and no sentence is that of another language.
func TestFunctionsHaveWords(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range present.ListFunctions() {
		known[f.Name] = true
	}
	for _, f := range condition.Functions() {
		if !known[f.Name] {
			t.Errorf("%s has no words: add a row to wordings in ui/present/condition.go", f.Name)
		}
	}
	const source = `args.to.exists(a, domain(a) != "example.com") || !has(args.memo) && args.amount <= 1000.5`
	for language, want := range map[string]string{
		"de": `(für mindestens ein Element a von Argument to gilt: Domain von a ist nicht "example.com") oder (Argument memo fehlt und Argument amount ist höchstens 1.000,5)`,
		"ja": `(引数 to の少なくとも 1 つの要素 a について、a のドメイン が "example.com" ではない)、または (引数 memo が指定されていない、かつ 引数 amount が 1,000.5 以下)`,
	} {
		ctx := text.WithLanguage(t.Context(), language)
		if got := present.DescribeCondition(source).In(ctx); got != want {
			t.Errorf("%s:\n got %s\nwant %s", language, got, want)
		}
	}
}

// Names and parts without words are code on pages, and what operators wrote is escaped.
func TestConditionIsRendered(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := present.DescribeCondition(`args.amount < 5.0 && args.note == "<b>"`).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if want := `the argument <code>amount</code> is less than 5 and the argument <code>note</code> is &#34;&lt;b&gt;&#34;`; b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

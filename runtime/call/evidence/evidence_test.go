package evidence_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/call/evidence"
)

func nothingHidden(string) bool { return false }

// collectAll returns the facts of approved calls with these arguments.
func collectAll(arguments ...string) []evidence.Call {
	history := make([]evidence.Call, len(arguments))
	for i, a := range arguments {
		history[i] = evidence.Call{Facts: evidence.Collect([]byte(a), nothingHidden), At: time.Unix(int64(1000-i), 0)}
	}
	return history
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		history   string // the values of approved calls
		value     string
		want      evidence.Verdict
		reasons   string
		usual     string // currency, min, median and max
		otherName string // of the argument; empty: amount
	}{
		{`"100.00" "360.00" "200.50"`, `"150.00"`, evidence.Usual, "", " 100 200.5 360", ""},
		{`"100.00" "360.00" "200.50"`, `"1,284.50"`, evidence.Unusual, "above_range", " 100 200.5 360", ""},
		{`"100.00" "360.00" "200.50"`, `"-5"`, evidence.Unusual, "below_range", " 100 200.5 360", ""},
		{`100.00 360.00 200.50`, `1284.50`, evidence.Unusual, "above_range", " 100 200.5 360", ""},
		{`"0.1" "0.2" "0.3" "0.1"`, `"0.30000000000000001"`, evidence.Unusual, "above_range", " 0.1 0.15 0.3", ""}, // one float64
		{`0.1 0.2 0.3 0.1`, `0.30000000000000001`, evidence.Unusual, "above_range", " 0.1 0.15 0.3", ""},
		{`9007199254740991 9007199254740992 3`, `9007199254740993`, evidence.Unusual, "above_range", " 3 9.007199254740991e+15 9.007199254740992e+15", ""},
		{`"EUR 1,000.00" "500 €" "EUR 700"`, `"999,99 EUR"`, evidence.Usual, "", "EUR 500 700 1000", ""},
		{`"EUR 1,000.00" "500 €" "EUR 700"`, `"EUR 1,000.01"`, evidence.Unusual, "above_range", "EUR 500 700 1000", ""},
		{`"EUR 1,000.00" "500 €" "EUR 700"`, `"USD 600"`, evidence.Unusual, "new_currency", "EUR 500 700 1000", ""},
		{`"EUR 1,000.00" "500 €" "USD 9,000.00"`, `"EUR 7,000.00"`, evidence.Unusual, "above_range", "EUR 500 750 1000", ""},
		{`"EUR 1,000.00" "500 €" "EUR 1.284"`, `"EUR 1,200.00"`, evidence.Unusual, "above_range", "EUR 500 750 1000", ""}, // 1.284 or 1284
		{`"100.00" "360.00" "200.50"`, `"all"`, evidence.Unusual, "other_type", " 100 200.5 360", ""},
		{`"100.00" "360.00" "200.50"`, `"1OO.00"`, evidence.Unusual, "other_type looks_like", " 100 200.5 360", ""},
		{`"100.00" "360.00" "200.50"`, `"0150.00"`, evidence.Unusual, "other_type", " 100 200.5 360", ""},
		{`100 360 200`, `1e999999999`, evidence.Unusual, "other_type", " 100 200 360", ""},
		{`"007" "008" "009"`, `"010"`, evidence.Usual, "", "", ""},
		{`"1001" "1002" "1003"`, `"1004"`, evidence.Usual, "", "", "order"},
		{`"1001" "1002" "1003"`, `"1004"`, evidence.Unusual, "above_range", " 1001 1002 1003", ""},
		{`"10.5" "twelve" "11.5"`, `"900.5"`, evidence.Usual, "", "", ""},
		// Separators that may mean two amounts.
		{`"$1,284" "$2,500" "$3,100"`, `"$1,950,000"`, evidence.Unusual, "new_value", "", ""},
		{`"$1,284" "$2,500" "$3,100"`, `"$1,300"`, evidence.Unusual, "new_value", "", ""},
		{`"$1,284" "$2,500" "$3,100"`, `"$1,284"`, evidence.Usual, "", "", ""},
		{`"$1,284" "$2,500" "$3,100"`, `"EUR 5"`, evidence.Unusual, "new_currency", "", ""},
		{`"$1,284" "$2,500" "$3,100"`, `"all"`, evidence.Unusual, "other_type", "", ""},
		{`"$1,284" "$2,500" "$9,00" "$9.00" "EUR 5"`, `"$8.00"`, evidence.Unusual, "below_range", "USD 9 9 9", ""},
		{`"$1,284" "EUR 9,00" "EUR 5,00"`, `"$8.00"`, evidence.Unusual, "new_value", "", ""},
		{`"EUR 1,000.00" "EUR 2,000.00" "EUR 1,500.00"`, `"EUR 1.284"`, evidence.Unusual, "below_range", "EUR 1000 1500 2000", ""},
		{`"EUR 1.00" "EUR 9.00" "EUR 5.00"`, `"EUR 5.284"`, evidence.Unusual, "above_range", "EUR 1 5 9", ""},
		{`"EUR 1.00" "EUR 9,000.00" "EUR 5.00"`, `"EUR 5.284"`, evidence.Usual, "", "EUR 1 5 9000", ""},
		// Approved calls show the decimal mark. The other separator groups thousands.
		{`"$1,284.50" "$900.00" "$1,150.00"`, `"$1,300"`, evidence.Unusual, "above_range", "USD 900 1150 1284.5", ""},
		{`"$1,284.50" "$900.00" "$1,150.00"`, `"$1,200"`, evidence.Usual, "", "USD 900 1150 1284.5", ""},
		{`"$1,284.50" "$900.00" "$1,150.00"`, `"$1.200"`, evidence.Unusual, "below_range", "USD 900 1150 1284.5", ""},
		{`"1.284,50 €" "900,00 €" "1.150 €"`, `"1.200 €"`, evidence.Usual, "", "EUR 900 1150 1284.5", ""},
		{`"1.284.500 €" "2.000.000 €" "900 €"`, `"1.200 €"`, evidence.Usual, "", "EUR 900 1.2845e+06 2e+06", ""},
		{`"$1,284" "$2,500" "$9.00" "EUR 5"`, `"$8.00"`, evidence.Unusual, "below_range", "USD 9 1284 2500", ""},
		{`"$1,284" "EUR 9.00" "EUR 5.00"`, `"$1,284.01"`, evidence.Unusual, "above_range", "USD 1284 1284 1284", ""},
		{`"$1,284.50" "$900.00" "$1.150,00"`, `"$1,200"`, evidence.Unusual, "below_range", "USD 900 1150 1284.5", ""}, // both are in use
		// Separators after the decimal mark, and groups that are none.
		{`"EUR 1.00" "EUR 9.00" "EUR 5.00"`, `"EUR 5,000 000"`, evidence.Unusual, "other_type", "EUR 1 5 9", ""},
		{`"EUR 1.00" "EUR 9.00" "EUR 5.00"`, `"EUR 5.000'000"`, evidence.Unusual, "other_type", "EUR 1 5 9", ""},
		{`"1.00" "9.00" "5.00"`, `"5.000_000"`, evidence.Unusual, "other_type", " 1 5 9", ""},
		{`"1.00" "99999.00" "5.00"`, `"1,2,3"`, evidence.Unusual, "other_type", " 1 5 99999", ""},
		{`"1.00" "99999.00" "5.00"`, `"1.284.50"`, evidence.Unusual, "other_type", " 1 5 99999", ""},
		{`"1.00" "9.00" "5.00"`, `"1,284.500,000"`, evidence.Unusual, "other_type", " 1 5 9", ""},
		// Versions.
		{`"3.9" "3.11" "3.10"`, `"3.12"`, evidence.Usual, "", "", "version"},
		{`"1.00" "9.00" "5.00"`, `"90.00"`, evidence.Unusual, "above_range", " 1 5 9", "unitPrice"},
		// More than a float64 holds.
		{`1 9 5`, `1e309`, evidence.Unusual, "other_type", " 1 5 9", ""},
	} {
		name := cmp.Or(c.otherName, "amount")
		var approved []string
		for _, value := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(c.history, -1) {
			approved = append(approved, `{"`+name+`":`+value+`}`)
		}
		e := evidence.NewHistory(collectAll(approved...)).Judge([]byte(`{"`+name+`":`+c.value+`}`), nothingHidden)[0]
		usual := ""
		if r := e.Range; r != nil {
			usual = fmt.Sprint(r.Currency, " ", r.Min, " ", r.Median, " ", r.Max)
		}
		if reasons := strings.Trim(fmt.Sprint(e.Reasons), "[]"); e.Verdict != c.want || reasons != c.reasons || usual != c.usual {
			t.Errorf("%s after %s: %s [%s], usual %q; want %s [%s], usual %q", c.value, c.history, e.Verdict, reasons, usual, c.want, c.reasons, c.usual)
		}
	}
}

// An amount has the currency that a value beside it says.
func TestAmountsBesideCurrencies(t *testing.T) {
	t.Parallel()
	mixed := []string{
		`{"amount":"5000.00","currency":"JPY"}`, `{"amount":"6000.00","currency":"JPY"}`, `{"amount":"7000.00","currency":"JPY"}`,
		`{"amount":"20.00","currency":"GBP"}`, `{"amount":"30.00","currency":"GBP"}`, `{"amount":"40.00","currency":"GBP"}`,
	}
	asNumbers := make([]string, len(mixed))
	for i, one := range mixed {
		asNumbers[i] = regexp.MustCompile(`"([0-9.]+)"`).ReplaceAllString(one, "$1")
	}
	cents := []string{`{"amount_cents":100,"currency":"EUR"}`, `{"amount_cents":300,"currency":"EUR"}`, `{"amount_cents":200,"currency":"EUR"}`}
	lines := `{"lines":[{"amount":5000,"currency":"JPY"},{"amount":20,"currency":"GBP"},{"amount":6000,"currency":"JPY"},{"amount":30,"currency":"GBP"}]}`
	listed := []string{lines, lines, lines}
	unknown := []string{`{"total":5000,"currency":"UGX"}`, `{"total":6000,"currency":"UGX"}`, `{"total":20,"currency":"XPF"}`}
	for _, c := range []struct {
		history []string
		value   string
		path    string
		reasons string
		usual   string
	}{
		{mixed, `{"amount":"4000.00","currency":"GBP"}`, "/amount", "above_range", "GBP 20 40"},
		{asNumbers, `{"amount":4000.00,"currency":"GBP"}`, "/amount", "above_range", "GBP 20 40"},
		{mixed, `{"amount":"5000.00","currency":"GBP"}`, "/amount", "above_range", "GBP 20 40"}, // the same text, but of yen
		{asNumbers, `{"amount":5000.00,"currency":"GBP"}`, "/amount", "above_range", "GBP 20 40"},
		{mixed, `{"amount":"GBP 4000.00","currency":"JPY"}`, "/amount", "above_range", "GBP 20 40"},
		{mixed, `{"amount":"6,500.00","currency":"jpy"}`, "/amount", "", "JPY 5000 7000"},
		{mixed, `{"amount":"25.00","currency":"£"}`, "/amount", "", "GBP 20 40"},
		{mixed, `{"amount":"25.00","currency":"EUR"}`, "/amount", "new_currency", "GBP 20 40"},
		{mixed, `{"amount":"25.00"}`, "/amount", "new_currency", "GBP 20 40"},
		{mixed, `{"amount":"4,000","currency":"GBP"}`, "/amount", "above_range", "GBP 20 40"},
		{unknown, `{"total":5500,"currency":"XPF"}`, "/total", "above_range", "XPF 20 20"},
		{cents, `{"amount_cents":250,"currency":"EUR"}`, "/amount_cents", "", " 100 300"},
		{cents, `{"amount_cents":"EUR 2.50","currency":"EUR"}`, "/amount_cents", "other_type", " 100 300"},
		{listed, `{"lines":[{"amount":4000,"currency":"GBP"}]}`, "/lines/0/amount", "above_range", "GBP 20 30"},
		{listed, lines, "/lines/0/amount", "", "JPY 5000 6000"},
	} {
		for _, e := range evidence.NewHistory(collectAll(c.history...)).Judge([]byte(c.value), nothingHidden) {
			if e.Path != c.path {
				continue
			}
			usual := ""
			if r := e.Range; r != nil {
				usual = fmt.Sprint(r.Currency, " ", r.Min, " ", r.Max)
			}
			if reasons := strings.Trim(fmt.Sprint(e.Reasons), "[]"); reasons != c.reasons || usual != c.usual {
				t.Errorf("%s: [%s], usual %q; want [%s], usual %q", c.value, reasons, usual, c.reasons, c.usual)
			}
		}
	}
}

func TestAmountsWithoutARangeShowValues(t *testing.T) {
	t.Parallel()
	e := evidence.NewHistory(collectAll(`{"amount":"$1,284"}`, `{"amount":"$2,500"}`, `{"amount":"$3,100"}`)).Judge([]byte(`{"amount":"$9"}`), nothingHidden)[0]
	if !slices.Equal(e.Common, []string{"$1,284", "$2,500", "$3,100"}) {
		t.Errorf("the usual values are %q", e.Common)
	}
}

func TestTimesAreFinite(t *testing.T) {
	t.Parallel()
	history := evidence.NewHistory(collectAll(`{"a":1e-300}`, `{"a":2e-300}`, `{"a":3e-300}`))
	for _, value := range []string{`1e308`, `1e309`} {
		if e := history.Judge([]byte(`{"a":`+value+`}`), nothingHidden)[0]; e.Verdict != evidence.Unusual || e.Range == nil || e.Range.Times != 0 {
			t.Errorf("%s is described as %+v, %+v", value, e, e.Range)
		}
	}
}

// The currency of an amount is no part of facts if it is a secret.
func TestSecretsAreNoCurrencies(t *testing.T) {
	t.Parallel()
	hidden := func(pointer string) bool { return pointer == "/currency" }
	arguments := []byte(`{"amount":5,"currency":"EUR"}`)
	facts := evidence.Collect(arguments, hidden)
	if len(facts) != 1 || facts[0].Currency != "" {
		t.Errorf("facts: %+v", facts)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	payments := collectAll(
		`{"iban":"DE89370400440532013459","amount":100,"currency":"EUR","to":["ann@acme.com"],"memo":"rent for May","file":"/inbox/a.pdf"}`,
		`{"iban":"DE89370400440532013459","amount":360,"currency":"EUR","to":["ben@acme.com"],"memo":"a chair","file":"/inbox/b.pdf"}`,
		`{"iban":"DE89370400440532013459","amount":200.5,"currency":"EUR","to":["ann@acme.com","ben@acme.com"],"memo":"paper","file":"/inbox/2026/c.pdf"}`,
	)
	for name, c := range map[string]struct {
		arguments string
		want      string // the unusual arguments with their reasons
	}{
		"usual":        {`{"iban":"DE89370400440532013459","amount":150,"currency":"EUR","to":["cat@acme.com"],"memo":"pens","file":"/inbox/d.pdf"}`, ""},
		"running":      {`{"file":"/inbox/2026/21.pdf"}`, ""},
		"swapped":      {`{"iban":"DE89370400440532013495"}`, "/iban looks_like"},
		"other IBAN":   {`{"iban":"FR1420041010050500013M02606"}`, "/iban new_value"},
		"large":        {`{"amount":1284.50,"currency":"EUR"}`, "/amount above_range"},
		"small":        {`{"amount":-5,"currency":"EUR"}`, "/amount below_range"},
		"as text":      {`{"amount":"150"}`, "/amount other_type"},
		"currency":     {`{"currency":"USD"}`, "/currency new_value"},
		"foreign":      {`{"to":["ann@acme.com","eve@evil.example"]}`, "/to/1 new_domain"},
		"homoglyph":    {`{"to":["аnn@acme.com"]}`, "/to/0 looks_like"},
		"known domain": {`{"to":["ann@acrne.com"]}`, "/to/0 looks_like"},
		"elsewhere":    {`{"file":"/etc/passwd"}`, "/file new_place"},
		"new":          {`{"urgent":true}`, "/urgent new_argument"},
		"long":         {`{"memo":"` + strings.Repeat("x ", 300) + `"}`, "/memo longer"},
	} {
		var got []string
		for _, e := range evidence.NewHistory(payments).Judge([]byte(c.arguments), nothingHidden) {
			if e.Verdict == evidence.Unusual {
				got = append(got, fmt.Sprint(e.Path, " ", strings.Trim(fmt.Sprint(e.Reasons), "[]")))
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: unusual: %q, want %q", name, got, c.want)
		}
	}
}

func TestJudgeDescribes(t *testing.T) {
	t.Parallel()
	history := collectAll(`{"a":100,"c":"EUR"}`, `{"a":200,"c":"EUR"}`, `{"a":300,"c":"USD"}`, `{"c":"EUR"}`)
	got := evidence.NewHistory(history).Judge([]byte(`{"a":1000,"c":"EUR"}`), nothingHidden)
	if a := got[0]; a.Calls != 4 || a.Having != 3 || a.Same != 0 || *a.Range != (evidence.Range{Min: 100, Median: 200, Max: 300, Times: 5}) {
		t.Errorf("a number is described as %+v, %+v", a, a.Range)
	}
	if c := got[1]; c.Same != 3 || !slices.Equal(c.Common, []string{"EUR", "USD"}) {
		t.Errorf("a text is described as %+v", c)
	}
}

func TestLittleHistoryIsNoVerdict(t *testing.T) {
	t.Parallel()
	for _, e := range evidence.NewHistory(collectAll(`{"a":2}`, `{"a":3}`)).Judge([]byte(`{"a":1,"b":{"c":[]}}`), nothingHidden) {
		if e.Verdict != evidence.NoHistory || e.Calls != 2 {
			t.Errorf("%s is %s after %d calls", e.Path, e.Verdict, e.Calls)
		}
	}
}

func TestSecretsAreNoFacts(t *testing.T) {
	t.Parallel()
	hidden := func(pointer string) bool { return pointer == "/auth/password" }
	arguments := []byte(`{"auth":{"password":"hunter2","user":"ann"}}`)
	facts := evidence.Collect(arguments, hidden)
	if len(facts) != 1 || facts[0].Path != "/auth/user" {
		t.Errorf("facts: %+v", facts)
	}
	approved := evidence.Call{Facts: facts}
	entries := evidence.NewHistory([]evidence.Call{approved, approved, approved}).Judge(arguments, hidden)
	if entries[0].Verdict != evidence.Hidden || entries[0].Common != nil || entries[1].Verdict != evidence.Usual {
		t.Errorf("entries: %+v", entries)
	}
}

// The facts of a call are bounded, so that 500 calls are at most 2 MB.
func TestFactsAreBounded(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString(`{"list":["` + strings.Repeat(`x`, 5000) + `"`)
	for i := range 5000 {
		fmt.Fprintf(&many, `,"value %d %s"`, i, strings.Repeat("y", 80))
	}
	size := 0
	facts := evidence.Collect([]byte(many.String()+`]}`), nothingHidden)
	for _, f := range facts {
		size += len(f.Path) + len(f.Value)
	}
	if len(facts) == 0 || size > 4<<10 {
		t.Errorf("%d facts of %d bytes", len(facts), size)
	}
	if facts[0].Long != 5000 || len(facts[0].Value) > 120 {
		t.Errorf("the first fact is %+v", facts[0])
	}
}

// What is unusual is compared with the last approved call to the same target, which may be written in another way.
func TestLastCallToTheSameTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history   []string // the newest first
		arguments string
		want      string // path: value, target
	}{
		"IBAN": {
			[]string{
				`{"iban":"FR1420041010050500013M02606","amount":900}`,
				`{"iban":"DE89 3704 0044 0532 0130 00","amount":120}`,
				`{"iban":"DE89370400440532013000","amount":130}`,
			}, `{"iban":"DE89370400440532013000","amount":1000}`, "/amount: 120, DE89370400440532013000",
		},
		"e-mail before an id": {
			[]string{
				`{"customer_id":7,"to":["bo@acme.com"],"priority":1,"from":"me@acme.com"}`,
				`{"customer_id":8,"to":["Ann@Acme.com"],"priority":2,"from":"me@acme.com"}`,
				`{"customer_id":9,"to":["cat@acme.com"],"priority":3,"from":"me@acme.com"}`,
			}, `{"customer_id":7,"to":["ann@acme.com"],"priority":9,"from":"me@acme.com"}`, "/priority: 2, ann@acme.com",
		},
		"several recipients are no target, but the id is": {
			[]string{`{"to":["a@acme.com","b@acme.com"],"customer_id":1,"n":1}`, `{"to":["a@acme.com"],"customer_id":2,"n":2}`, `{"to":["a@acme.com"],"customer_id":2,"n":3}`},
			`{"to":["a@acme.com","b@acme.com"],"customer_id":2,"n":50}`, "/n: 2, 2",
		},
		"host and path of a URL": {
			[]string{`{"url":"https://acme.com/b?page=1","n":1}`, `{"url":"https://ACME.com/x/../a?page=2","n":2}`, `{"url":"https://acme.com/b","n":3}`},
			`{"url":"https://acme.com/a","n":50}`, "/n: 2, https://acme.com/a",
		},
		"path of a file": {
			[]string{`{"path":"/srv/b","mode":"r"}`, `{"path":"/srv/./a","mode":"r"}`, `{"path":"/srv/b","mode":"r"}`},
			`{"path":"/srv/a","mode":"w"}`, "/mode: r, /srv/a",
		},
		"the sender is no target": {
			[]string{`{"from":"me@acme.com","n":1}`, `{"from":"me@acme.com","n":2}`, `{"from":"me@acme.com","n":3}`},
			`{"from":"me@acme.com","n":50}`, "",
		},
		"a usual value is not compared": {
			[]string{`{"id":1,"n":1}`, `{"id":2,"n":2}`, `{"id":3,"n":3}`}, `{"id":1,"n":3}`, "",
		},
		"little history": {[]string{`{"id":"x","n":1}`}, `{"id":"x","n":3}`, "/n: 1, x"},
		"the number is not the text": {
			[]string{`{"id":"1","n":1}`, `{"id":"1","n":2}`, `{"id":"1","n":3}`}, `{"id":1,"n":50}`, "",
		},
		"a long value has only a digest": {
			[]string{`{"id":1,"s":"` + strings.Repeat("x", 200) + `"}`}, `{"id":1,"s":"y"}`, "",
		},
	} {
		var got []string
		for _, e := range evidence.NewHistory(collectAll(c.history...)).Judge([]byte(c.arguments), nothingHidden) {
			if e.Last != nil {
				got = append(got, e.Path+": "+e.Last.Value+", "+e.Last.Target)
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A secret is neither a target nor compared.
func TestLastCallHasNoSecrets(t *testing.T) {
	t.Parallel()
	history := evidence.NewHistory(collectAll(`{"account":"a1","pin":"1111"}`, `{"account":"a1","pin":"2222"}`, `{"account":"a1","pin":"3333"}`))
	for _, secret := range []string{"/account", "/pin"} {
		for _, e := range history.Judge([]byte(`{"account":"a1","pin":"9999"}`), func(pointer string) bool { return pointer == secret }) {
			if e.Last != nil {
				t.Errorf("%s hidden: %s was %+v", secret, e.Path, e.Last)
			}
		}
	}
}

func ExampleHistory_Judge() {
	none := func(string) bool { return false }
	var history []evidence.Call
	for _, amount := range []int{100, 150, 360} {
		history = append(history, evidence.Call{Facts: evidence.Collect(fmt.Appendf(nil, `{"amount":%d}`, amount), none)})
	}
	entry := evidence.NewHistory(history).Judge([]byte(`{"amount":750}`), none)[0]
	fmt.Println(entry.Path, entry.Verdict, entry.Reasons, entry.Range.Times)
	// Output: /amount unusual [above_range] 5
}

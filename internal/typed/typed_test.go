package typed_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/typed"
)

// recognize recognizes a member of an object.
func recognize(t *testing.T, object, name string) typed.Value {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	raw, ok := members[name]
	if !ok {
		t.Fatalf("%s has no %s", object, name)
	}
	return typed.Recognize(name, raw, func(name string) (json.RawMessage, bool) { raw, ok := members[name]; return raw, ok })
}

// encode returns an object with one member.
func encode(t *testing.T, name, text string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]string{name: text})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       typed.Kind
	}{
		{"note", "Thanks for your help!", typed.Text},
		{"note", "", typed.Text},
		{"note", "Select your favorite from the list", typed.Text},
		{"note", "Update the set of tables where you like.", typed.Text},
		{"note", "1 < 2 and 3 > 2", typed.Text},
		{"note", "and/or", typed.Text},
		{"note", "deploymentsuccessful", typed.Text},
		{"commit", "da39a3ee5e6b4b0d3255bfef95601890afd80709", typed.Text},
		{"id", "0192f0c1-7b1e-7c3a-9f2e-5a1d2c3b4e5f", typed.Text},
		{"note", "curl is a program", typed.Text},
		{"id", "DE12ABCD", typed.Text},
		{"iban", "DE89 3704 0044 0532 0130 00", typed.IBAN},
		{"note", "DE89370400440532013000", typed.IBAN},
		{"price", "EUR 1,284.50", typed.Money},
		{"note", "$5", typed.Money},
		{"note", "5 apples", typed.Text},
		{"day", "2026-11-25", typed.Date},
		{"x", "2026-11-25T17:05:00.25+01:00", typed.Date},
		{"created_at", "1764086400", typed.Date},
		{"x", "1764086400", typed.Text},
		{"x", "ana@example.com", typed.Email},
		{"x", "Ana Lopez <ana@example.com>", typed.Email},
		{"x", "ask ana@example.com", typed.Text},
		{"to", "ana@example.com; ben@example.org", typed.Recipients},
		{"x", "https://example.com/a?b=c", typed.URL},
		{"x", "see https://example.com/", typed.Text},
		{"x", "note: https", typed.Text},
		{"x", "/etc/passwd", typed.Path},
		{"x", `C:\Users\ana\a.txt`, typed.Path},
		{"file", "reports/november.csv", typed.Path},
		{"x", "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n", typed.Diff},
		{"x", `{"a":[1,2]}`, typed.JSON},
		{"x", `{a}`, typed.Text},
		{"x", "<p>Hello</p>", typed.HTML},
		{"x", "SELECT a FROM b", typed.SQL},
		{"sql", "select a from b", typed.SQL},
		{"x", "git push --force origin main", typed.Shell},
		{"command", "make", typed.Shell},
		{"x", base64.StdEncoding.EncodeToString([]byte("a text that is long enough")), typed.Base64},
	} {
		t.Run(tt.name+" "+tt.text, func(t *testing.T) {
			t.Parallel()
			if v := recognize(t, encode(t, tt.name, tt.text), tt.name); v.Kind != tt.want || !v.IsString || v.Text != tt.text {
				t.Errorf("kind %d, want %d", v.Kind, tt.want)
			}
		})
	}
	for raw, want := range map[string]typed.Kind{
		`1`: typed.Number, `-1.5e3`: typed.Number, `true`: typed.Boolean, `null`: typed.Null, `{}`: typed.Nested, `[1]`: typed.Nested,
		`["a@b.example","c@d.example"]`: typed.Recipients, `["a"]`: typed.Nested, `[]`: typed.Nested,
	} {
		if v := typed.Recognize("x", json.RawMessage(raw), nil); v.Kind != want || v.IsString || v.Text != raw {
			t.Errorf("%s has kind %d, want %d", raw, v.Kind, want)
		}
	}
}

// A string that could be taken for another type is flagged, so that a card quotes it.
func TestLike(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]typed.Kind{
		"1000": typed.Number, "-1.5": typed.Number, " 1000 ": typed.Number, "true": typed.Boolean, "FALSE": typed.Boolean, "null": typed.Null, "None": typed.Null,
		"": typed.Text, "1000 EUR": typed.Text, "0x10": typed.Text, "truest": typed.Text, "1,000": typed.Text,
	} {
		if v := typed.RecognizeText(text); v.Like != want {
			t.Errorf("%q looks like %d, want %d", text, v.Like, want)
		}
	}
}

func TestDecimalMark(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1,284.50": ".", "1.284,50": ",", "9.5": ".", "9,5": ",", "1 284,5": ",", "1'284.500": ".", "1284,500": ",", "0,125": ",", "1,284,500": ".", "1.284.500": ",",
		"1,284": "", "1.284": "", "12": "", "1 284": "",
	} {
		if got, ok := typed.ReadAmount("x", "EUR "+text); !ok || got.DecimalMark != want {
			t.Errorf("%s: the decimal mark is %q, want %q", text, got.DecimalMark, want)
		}
	}
}

func TestMoney(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		object, name, amount, currency string
		minor, ambiguous               bool
	}{
		{`{"amount":1284.50,"currency":"EUR"}`, "amount", "1284.50", "EUR", false, false},
		{`{"amount":"1284.50","currency":"eur"}`, "amount", "1284.50", "EUR", false, false},
		{`{"total":"1,284.50","total_currency":"USD"}`, "total", "1284.50", "USD", false, false},
		{`{"amount_cents":128450,"currency":"EUR"}`, "amount_cents", "128450", "EUR", true, false},
		{`{"price_eur":12}`, "price_eur", "12", "EUR", false, false},
		{`{"amount":1.2845e3,"currency":"EUR"}`, "amount", "1284.5", "EUR", false, false},
		{`{"amount":5e-3,"currency":"EUR"}`, "amount", "0.005", "EUR", false, false},
		{`{"amount":90071992547409931234.10,"currency":"EUR"}`, "amount", "90071992547409931234.10", "EUR", false, false},
		{`{"x":"EUR 1,284.50"}`, "x", "1284.50", "EUR", false, false},
		{`{"x":"1.284,50 €"}`, "x", "1284.50", "EUR", false, false},
		{`{"x":"1 284,50 PLN"}`, "x", "1284.50", "PLN", false, false},
		{`{"x":"1\u202f284,50\u00a0€"}`, "x", "1284.50", "EUR", false, false},
		{`{"x":"-$5"}`, "x", "-5", "USD", false, false},
		{`{"x":"CHF 1'284.50"}`, "x", "1284.50", "CHF", false, false},
		{`{"x":"$1,284,500"}`, "x", "1284500", "USD", false, false},
		{`{"x":"$1,284"}`, "x", "1284", "USD", false, true},
		{`{"x":"0.500 BTC"}`, "x", "0.500", "BTC", false, false},
	} {
		t.Run(tt.object, func(t *testing.T) {
			t.Parallel()
			want := &typed.MoneyValue{Amount: tt.amount, Currency: tt.currency, Minor: tt.minor, Ambiguous: tt.ambiguous}
			v := recognize(t, tt.object, tt.name)
			if v.Money != nil {
				want.DecimalMark = v.Money.DecimalMark // see TestDecimalMark
			}
			if !reflect.DeepEqual(v.Money, want) || v.Kind != typed.Money {
				t.Errorf("got %+v, want %+v", v.Money, want)
			}
		})
	}
	for _, object := range []string{
		`{"amount":12}`, `{"amount":12,"currency":"apples"}`, `{"x":12,"currency":"EUR"}`, `{"x":"12 APPLES"}`, `{"amount":1e999,"currency":"EUR"}`, `{"x":"€"}`,
		`{"x":"EUR 5,000 000"}`, `{"x":"EUR 5.000'000"}`, `{"x":"EUR 5.000_000"}`, `{"x":"EUR 1,2,3"}`, `{"x":"EUR 1.284.50"}`, `{"x":"EUR 1,284.500,000"}`,
	} {
		for _, name := range []string{"amount", "x"} {
			if strings.Contains(object, `"`+name+`"`) && recognize(t, object, name).Kind == typed.Money {
				t.Errorf("%s is money", object)
			}
		}
	}
}

func TestIBAN(t *testing.T) {
	t.Parallel()
	v := typed.RecognizeText("gb29 NWBK 6016 1331 9268 19")
	if v.IBAN == nil || v.IBAN.Country != "GB" || !v.IBAN.Valid || strings.Join(v.IBAN.Groups, " ") != "GB29 NWBK 6016 1331 9268 19" || len(v.Warnings) != 0 {
		t.Errorf("%+v %v", v.IBAN, v.Warnings)
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		object, name, want string
		form               typed.DateForm
	}{
		{`{"x":"2026-11-25"}`, "x", "2026-11-25T00:00:00Z", typed.Day},
		{`{"x":"2026-11-25 17:05"}`, "x", "2026-11-25T17:05:00Z", typed.Local},
		{`{"x":"2026-11-25T17:05:00+01:00"}`, "x", "2026-11-25T16:05:00Z", typed.Instant},
		{`{"expiresAt":1764086400}`, "expiresAt", "2025-11-25T16:00:00Z", typed.Instant},
		{`{"timestamp":1764086400123}`, "timestamp", "2025-11-25T16:00:00.123Z", typed.Instant},
		{`{"created":"1764086400"}`, "created", "2025-11-25T16:00:00Z", typed.Instant},
	} {
		v := recognize(t, tt.object, tt.name)
		if v.Date == nil || v.Date.At.UTC().Format("2006-01-02T15:04:05.999Z07:00") != tt.want || v.Date.Form != tt.form {
			t.Errorf("%s: %+v", tt.object, v.Date)
		}
	}
}

// marked writes spans with their class: the class of plain text is left out.
func marked(spans []typed.Span) string {
	names := map[typed.Class]string{
		typed.ClassStrong: "strong", typed.ClassUserinfo: "user", typed.ClassKeyword: "key", typed.ClassString: "str", typed.ClassComment: "com", typed.ClassNumber: "num",
		typed.ClassOperator: "op", typed.ClassName: "name", typed.ClassTag: "tag", typed.ClassAdded: "add", typed.ClassRemoved: "del", typed.ClassHeader: "head",
	}
	var b strings.Builder
	for _, s := range spans {
		if s.Class == typed.ClassPlain {
			b.WriteString(s.Text)
			continue
		}
		fmt.Fprintf(&b, "‹%s %s›", names[s.Class], s.Text)
	}
	return b.String()
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"x", "ana@mail.example.co.uk", "ana@mail.‹strong example.co.uk›"},
		{"x", "Ana <ana@Example.COM>", "Ana <ana@‹strong Example.COM›>"},
		{"x", "https://a:b@www.example.com:8080/p", "https://‹user a:b@›www.‹strong example.com›:8080/p"},
		{"x", "https://ana.github.io/", "https://‹strong ana.github.io›/"},
		{"x", "/srv/data/a.csv", "/srv/data/‹strong a.csv›"},
		{"x", `{"a":"b","c":[1,true]}`, `{‹name "a"›:‹str "b"›,‹name "c"›:[‹num 1›,‹key true›]}`},
		{"x", "DELETE FROM t -- WHERE id=1", "‹key DELETE› ‹key FROM› t ‹com -- WHERE id=1›"},
		{"sql", "select 'it''s' from t where a>=$1", "‹key select› ‹str 'it''s'› ‹key from› t ‹key where› a‹op >=›‹name $1›"},
		{"command", "X=1 curl -s \"$U\" | sh # done", "X=1 ‹key curl› -s ‹str \"$U\"› ‹op |› ‹key sh› ‹com # done›"},
		{"command", "echo a#b $HOME 5", "‹key echo› a#b ‹name $HOME› ‹num 5›"},
		{"x", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n", "‹head --- a\n+++ b\n@@ -1 +1 @@\n›‹del -x\n›‹add +y\n› z\n"},
		{"x", "<p>Hi <!-- b --></p>", "‹tag <p>›Hi ‹com <!-- b -->›‹tag </p>›"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			if got := marked(recognize(t, encode(t, tt.name, tt.text), tt.name).Spans); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRecipients(t *testing.T) {
	t.Parallel()
	v := typed.Recognize("to", json.RawMessage(`["a@x.example.com","b@evil.example","Cy <c@Example.com>"]`), nil)
	want := []typed.Domain{{Name: "example.com", Addresses: []string{"a@x.example.com", "c@Example.com"}}, {Name: "evil.example", Addresses: []string{"b@evil.example"}}}
	if !reflect.DeepEqual(v.Domains, want) || len(v.Warnings) > 0 {
		t.Errorf("got %+v %v", v.Domains, v.Warnings)
	}
}

func TestBase64(t *testing.T) {
	t.Parallel()
	encoded := func(data string) string { return base64.StdEncoding.EncodeToString([]byte(data)) }
	binary := strings.Repeat("\x80\x01\xd3\x5f\x8e", 20)
	for _, tt := range []struct{ object, mediaType, text string }{
		{`{"x":"` + encoded("%PDF-1.7\n"+binary) + `"}`, "application/pdf", ""},
		{`{"x":"data:image/png;base64,` + encoded("\x89PNG\r\n\x1a\n"+binary) + `"}`, "image/png", ""},
		{`{"x":"` + encoded("a text: äöü") + `"}`, "text/plain", "a text: äöü"},
		{`{"x":"` + base64.RawURLEncoding.EncodeToString([]byte("a text??>>~~ ÿÿ")) + `"}`, "text/plain", "a text??>>~~ ÿÿ"},
		{`{"content":"` + encoded(binary) + `","filename":"a.bin"}`, "", ""},
	} {
		name := "x"
		if strings.Contains(tt.object, "content") {
			name = "content"
		}
		v := recognize(t, tt.object, name)
		if v.Base64 == nil || v.Base64.Type != tt.mediaType || v.Base64.Text != tt.text || len(v.Warnings) != 0 {
			t.Errorf("%s: %+v %v", tt.object, v.Base64, v.Warnings)
		}
	}
	for n := range 40 {
		data := strings.Repeat("é1", 200)[:20+n]
		if v := typed.Recognize("base64", json.RawMessage(`"`+encoded(data)+`"`), nil); v.Base64 == nil || v.Base64.Size != len(data) {
			t.Errorf("%d bytes: %+v", len(data), v.Base64)
		}
	}
	inner := typed.RecognizeText(encoded(encoded(encoded("a text that is long enough")))).Base64
	for range 2 {
		if inner == nil || inner.Inner == nil {
			t.Fatal("nested base64 is not decoded")
		}
		inner = inner.Inner.Base64
	}
	if inner == nil || inner.Text != "a text that is long enough" {
		t.Errorf("the innermost is %+v", inner)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	pdf := base64.StdEncoding.EncodeToString([]byte("%PDF-1.7\n" + strings.Repeat("\x80", 60)))
	for _, tt := range []struct{ object, name, want string }{
		{`{"iban":"DE89370400440532010300"}`, "iban", "IBANInvalid[DE89370400440532010300]"},
		{`{"x":"1000"}`, "x", "NumberAsText[1000]"},
		{`{"x":"$1,284"}`, "x", "AmbiguousAmount[$1,284]"},
		{`{"x":"https://paypal.com@evil.example/"}`, "x", "Userinfo[paypal.com evil.example]"},
		{`{"x":"http://0x7f000001/"}`, "x", "NumericHost[0x7f000001 127.0.0.1]"},
		{`{"x":"http://0177.1/"}`, "x", "NumericHost[0177.1 127.0.0.1]"},
		{`{"x":"http://10.0.0.1/"}`, "x", "IPHost[10.0.0.1]"},
		{`{"x":"https://xn--bcher-kva.example/"}`, "x", "PunycodeHost[xn--bcher-kva.example bücher.example]"},
		{`{"x":"https://xn--80ak6aa92e.com/"}`, "x", "LookalikeHost[xn--80ak6aa92e.com apple.com]"},
		{`{"x":"https://evil.example\\@paypal.com/"}`, "x", `AmbiguousHost[https://evil.example\@paypal.com/]`},
		{`{"x":"https://a.example/b/%2e%2E/c"}`, "x", "PathTraversal[/b/%2e%2E/c /c]"},
		{`{"path":"a/../../b"}`, "path", "PathLeavesRoot[a/../../b ../b]"},
		{`{"path":"/a/../b"}`, "path", "PathTraversal[/a/../b /b]"},
		{`{"path":"./a/b"}`, "path", ""},
		{`{"sql":"DELETE FROM t -- WHERE id=1"}`, "sql", "HiddenText[-- WHERE id=1] NoCondition[DELETE]"},
		{`{"sql":"DELETE FROM t WHERE id=1 -- old rows only"}`, "sql", ""},
		{`{"sql":"-- WHERE was wrong before\nSELECT a FROM b WHERE c = 1"}`, "sql", ""},
		{`{"sql":"SELECT '-- WHERE id=1' FROM t"}`, "sql", ""},
		{`{"sql":"UPDATE t SET a=1 WHERE id IN (SELECT id FROM u)"}`, "sql", ""},
		{`{"sql":"SELECT a FROM t WHERE 1=1 AND b=2"}`, "sql", ""},
		{`{"sql":"UPDATE t SET a=1 WHERE TRUE"}`, "sql", "AlwaysTrue[TRUE]"},
		{`{"command":"curl x | tee log | sudo sh"}`, "command", "DownloadExecuted[curl sh]"},
		{`{"command":"curl x -o y; sh z"}`, "command", ""},
		{`{"command":"echo 'curl x | sh'"}`, "command", ""},
		{`{"command":"ls # the listing"}`, "command", ""},
		{`{"command":"rm -rf / # --dry-run"}`, "command", "HiddenText[# --dry-run]"},
		{`{"content":"` + pdf + `","filename":"a.png"}`, "content", "TypeMismatch[a.png application/pdf]"},
		{`{"content":"` + pdf + `","mimeType":"application/pdf"}`, "content", ""},
		{`{"content":"` + pdf + `","name":"Ana"}`, "content", ""},
		{`{"to":"\"a@b.example\" <c@d.example>"}`, "to", "DisplayedAddress[a@b.example c@d.example]"},
		{`{"x":{"a":1,"A":2,"b":3}}`, "x", "KeysDifferInCase[a A]"},
		{`{"x":["a","B","b","a"]}`, "x", "ItemsDifferInCase[B b]"},
		{`{"x":"<a href=\"#\" onclick=\"x()\">"}`, "x", "ActiveContent[onclick]"},
	} {
		t.Run(tt.object, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, w := range recognize(t, tt.object, tt.name).Warnings {
				got = append(got, codeNames[w.Code]+fmt.Sprint(w.Args))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %s, want %s", strings.Join(got, " "), tt.want)
			}
		})
	}
}

var codeNames = map[typed.Code]string{
	typed.NumberAsText: "NumberAsText", typed.IBANInvalid: "IBANInvalid", typed.Userinfo: "Userinfo", typed.AmbiguousHost: "AmbiguousHost", typed.NumericHost: "NumericHost",
	typed.IPHost: "IPHost", typed.PunycodeHost: "PunycodeHost", typed.LookalikeHost: "LookalikeHost", typed.PathTraversal: "PathTraversal",
	typed.PathLeavesRoot: "PathLeavesRoot", typed.HiddenText: "HiddenText", typed.NoCondition: "NoCondition", typed.AlwaysTrue: "AlwaysTrue",
	typed.DownloadExecuted: "DownloadExecuted", typed.TypeMismatch: "TypeMismatch", typed.DisplayedAddress: "DisplayedAddress",
	typed.KeysDifferInCase: "KeysDifferInCase", typed.ItemsDifferInCase: "ItemsDifferInCase", typed.ActiveContent: "ActiveContent", typed.AmbiguousAmount: "AmbiguousAmount",
}

// Only the beginning of a long text is examined, and the value says so.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"SELECT a FROM b -- ", "curl x | ", "<p>", "diff --git a b\n", "@", "é", "a/../", "[", `{"a":`} {
		text := start + strings.Repeat("ä(' \"{<-/*@,", 100_000)
		v := typed.RecognizeText(text)
		if !v.Partial || len(v.Spans) > typed.MaxScanned+1 || joined(v.Spans) != text {
			t.Errorf("%q: partial %v, %d spans", start, v.Partial, len(v.Spans))
		}
	}
}

func joined(spans []typed.Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Spans cover the text, whatever it is.
func FuzzRecognize(f *testing.F) {
	for _, seed := range []string{
		"DELETE FROM t -- WHERE id=1", "curl a | sh", "https://a:b@c.d/%2e%2e", `{"a":"b`, "<p on=", "--- a\n+++ b", "DE89370400440532013000", "1.284,50 €",
		"a@b.c, d@e.f", "data:image/png;base64,iVBORw0KGgo=", "../../a", "\xff\xfe", "${", "$a$", "/*!", "=?",
	} {
		for _, name := range []string{"sql", "command", "x"} {
			f.Add(name, seed)
		}
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Skip()
		}
		var decoded string
		if err := json.Unmarshal(raw, &decoded); err != nil {
			t.Fatal(err)
		}
		v := typed.Recognize(name, raw, func(string) (json.RawMessage, bool) { return raw, true })
		if v.Text != decoded || joined(v.Spans) != decoded {
			t.Fatalf("%q became %q in spans of kind %d", decoded, joined(v.Spans), v.Kind)
		}
		for _, s := range v.Spans {
			if s.Text == "" {
				t.Fatalf("an empty span of %q", decoded)
			}
		}
		other := typed.Recognize(name, json.RawMessage(text), nil)
		if joined(other.Spans) != other.Text {
			t.Fatalf("spans of %q do not cover %q", text, other.Text)
		}
		typed.CompareKeys(json.RawMessage(text))
		typed.RecognizeDocument(json.RawMessage(text))
	})
}

func BenchmarkMegabyte(b *testing.B) {
	for _, start := range []string{"a ", "SELECT a FROM b ", "curl x | ", "<p>", "-----", "((((", "$(((", "{", "a@b.c,", "QUJD"} {
		raw, err := json.Marshal(strings.Repeat(start, 1<<20/len(start)))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(start, func(b *testing.B) {
			for b.Loop() {
				typed.Recognize("command", raw, nil)
			}
		})
	}
}

func TestRecognizeDocument(t *testing.T) {
	t.Parallel()
	values := typed.RecognizeDocument([]byte(`{"pay":{"amount":12.5,"currency":"EUR"},"to":["ann@acme.com","eve@evil.example"],"A":1,"a":2,"x~/":"1000"}`))
	if v := values["/pay/amount"]; v.Kind != typed.Money || v.Money.Currency != "EUR" {
		t.Errorf("an amount with its sibling: %+v", v)
	}
	if v := values["/to"]; v.Kind != typed.Recipients || len(v.Domains) != 2 {
		t.Errorf("recipients: %+v", v)
	}
	if v := values["/to/1"]; v.Kind != typed.Email {
		t.Errorf("an element: %+v", v)
	}
	if v := values[""]; len(v.Warnings) != 1 || v.Warnings[0].Code != typed.KeysDifferInCase {
		t.Errorf("the document: %+v", v)
	}
	if v := values["/x~0~1"]; v.Like != typed.Number {
		t.Errorf("a number as text: %+v", v)
	}
	if values := typed.RecognizeDocument([]byte(strings.Repeat("[", 400) + strings.Repeat("]", 400))); len(values) > 21 {
		t.Errorf("%d values of a deep document", len(values))
	}
}

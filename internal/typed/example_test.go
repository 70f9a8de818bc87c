package typed_test

import (
	"encoding/json"
	"fmt"

	"github.com/holdpoint/holdpoint/internal/typed"
)

func ExampleRecognize() {
	arguments := map[string]json.RawMessage{
		"amount":   json.RawMessage(`"1,284.50"`),
		"currency": json.RawMessage(`"EUR"`),
		"iban":     json.RawMessage(`"DE89370400440532010300"`),
	}
	siblings := func(name string) (json.RawMessage, bool) { raw, ok := arguments[name]; return raw, ok }

	amount := typed.Recognize("amount", arguments["amount"], siblings)
	fmt.Println(amount.Money.Amount, amount.Money.Currency)

	iban := typed.Recognize("iban", arguments["iban"], siblings)
	fmt.Println(iban.IBAN.Groups, iban.IBAN.Valid)
	for _, w := range iban.Warnings {
		fmt.Println(w.Code == typed.IBANInvalid, w.Level() == typed.Danger)
	}
	// Output:
	// 1284.50 EUR
	// [DE89 3704 0044 0532 0103 00] false
	// true true
}

func ExampleRecognizeText() {
	v := typed.RecognizeText("https://paypal.com@evil.example/login")
	for _, span := range v.Spans {
		if span.Class == typed.ClassStrong {
			fmt.Println(span.Text)
		}
	}
	// Output: evil.example
}

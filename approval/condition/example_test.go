package condition_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdpoint/holdpoint/approval/condition"
)

// The conditions of one tool share its schema, and a call is decoded once for all of them.
func ExampleSchema_Compile() {
	schema, err := condition.ReadSchema(json.RawMessage(`{"type":"object","properties":{
		"amount":{"type":"number"},"currency":{"enum":["EUR","USD"]}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	small, err := schema.Compile(`args.amount <= 100.0 && args.currency == "EUR"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, arguments := range []string{`{"amount":99.5,"currency":"EUR"}`, `{"amount":100.5,"currency":"EUR"}`, `{"currency":"EUR"}`} {
		call := condition.NewActivation(&condition.Input{Arguments: json.RawMessage(arguments), Agent: "support"})
		fmt.Println(small.Match(context.Background(), call, nil))
	}
	// Output:
	// true <nil>
	// false <nil>
	// false no such key: amount
}

// A condition that does not fit the tool is refused with the place of each mistake.
func ExampleCompile() {
	schema := json.RawMessage(`{"type":"object","properties":{"amount":{"type":"number"},"currency":{"enum":["EUR","USD"]}}}`)
	_, err := condition.Compile(`args.amount <= 100 && args.curency == "EUR"`, schema)
	fmt.Println(err)
	// Output:
	// 1:13: cannot compare a number with an integer: write 100.0
	// 1:28: args has no field curency: did you mean currency?
}

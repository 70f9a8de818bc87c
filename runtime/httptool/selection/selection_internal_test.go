package selection

import (
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// TestCheckSize: a result that is too long is refused before it is written.
func TestCheckSize(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("7", 1000)
	number, _ := new(big.Int).SetString(digits, 10)
	for _, v := range []any{digits, json.Number(digits), number, map[string]any{digits: nil}} {
		for n, want := range map[int]error{1000: nil, 5000: errOutputTooLong} {
			room := maxOutput
			if err := checkSize(slices.Repeat([]any{v}, n), &room, maxDepth); !errors.Is(err, want) {
				t.Errorf("%d times %T: %v, want %v", n, v, err, want)
			}
		}
	}
}

// TestSelectThatMultiplies: the budget stops a program that multiplies its input before it takes the memory. The test
// uses 1/32 of the budget, because the race detector is slow.
func TestSelectThatMultiplies(t *testing.T) {
	t.Parallel()
	for _, program := range []string{
		`reduce range(40) as $i ("x"; . + .) | length`,
		`reduce range(40) as $i ("x"; "\(.)\(.)") | length`,
		`reduce range(40) as $i ([1]; . + .) | length`,
		`reduce range(40) as $i (1; {a: ., b: .}) | tojson | length`,
		`reduce range(40) as $i (1; {a: ., b: .}) | @json | length`,
		`reduce range(40) as $i (1; {a: ., b: .}) | (. == {a: 1}), (. == .) | not`,
		`reduce range(40) as $i (1; {a: ., b: .}) | [., 1] | sort | length`,
		`[range(1000000000)] | length`,
		`[range(100000)] | join("y") as $s | [range(100000) | {a: ($s | ascii_upcase)}] | length`,
	} {
		s, err := Parse(program)
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		s.budget.limit = maxHandled / 32
		got, err := s.Run(t.Context(), []byte("null"))
		if err == nil || err.Error() != errHandled.Error() {
			t.Errorf("%s: %.50s, %v", program, got, err)
		}
	}
}

package tool

import (
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// TestFits: what is too long to be written is told before it is, whatever it is made of.
func TestFits(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("7", 1000)
	number, _ := new(big.Int).SetString(digits, 10)
	for _, v := range []any{digits, json.Number(digits), number, map[string]any{digits: nil}} {
		for n, want := range map[int]error{1000: nil, 5000: errSelectedLong} {
			room := maxSelected
			if err := fits(slices.Repeat([]any{v}, n), &room, maxSelectedDeep); !errors.Is(err, want) {
				t.Errorf("%d times %T: %v, want %v", n, v, err, want)
			}
		}
	}
}

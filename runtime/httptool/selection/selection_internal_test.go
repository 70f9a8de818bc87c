package selection

import (
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
)

// TestCheckSize: a result that is too long is refused before it is written, whatever it consists of.
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

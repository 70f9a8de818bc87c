package evidence

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/typed"
)

// amount is a number, or a text that is one. Amounts are compared exactly: two that round to one float64 may differ.
type amount struct {
	digits    string  // as in JSON
	currency  string  // that a text names; empty: none
	ambiguous bool    // the separators may mean another amount
	rounded   float64 // orders most amounts
}

// maxExponent bounds the exponents of numbers, whose exact values would need much memory.
const maxExponent = 400

// readAmount returns the amount of a fact, if it is one.
func (f Fact) readAmount() (a amount, ok bool) {
	switch {
	case f.Long > 0:
		return a, false
	case f.Kind == number:
		a.digits = f.Value
	case f.Kind == text:
		money, ok := typed.ReadAmount(f.lastName(), f.Value)
		if !ok {
			return a, false
		}
		a.digits, a.currency, a.ambiguous = money.Amount, money.Currency, money.Ambiguous
	default:
		return a, false
	}
	if at := strings.IndexAny(a.digits, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(a.digits[at+1:])
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return a, false
		}
	}
	var err error
	a.rounded, err = strconv.ParseFloat(a.digits, 64)
	return a, err == nil
}

// exact returns the exact value.
func (a amount) exact() *big.Rat {
	value, _ := new(big.Rat).SetString(a.digits)
	return value
}

func compareAmounts(a, b amount) int {
	if a.rounded != b.rounded || a.digits == b.digits {
		return cmp.Compare(a.rounded, b.rounded)
	}
	return a.exact().Cmp(b.exact())
}

// findMedian returns the median of ordered amounts, rounded once.
func findMedian(amounts []amount) float64 {
	n := len(amounts)
	if n%2 == 1 {
		return amounts[n/2].rounded
	}
	sum := new(big.Rat).Add(amounts[n/2-1].exact(), amounts[n/2].exact())
	median, _ := sum.Quo(sum, big.NewRat(2, 1)).Float64()
	return median
}

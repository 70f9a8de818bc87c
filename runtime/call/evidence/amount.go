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
	digits  string  // as in JSON
	rounded float64 // orders most amounts
}

// smallest follows the currency of amounts that count its smallest unit, such as cents.
const smallest = " in the smallest unit"

// maxExponent bounds the exponents of numbers, whose exact values would need much memory.
const maxExponent = 400

// readAmounts returns the amounts that a fact may be, and their unit: a currency, or "". It returns none if the fact is no amount, and two if
// its separators may mean thousands or decimals: the first one has no decimals. mark is the decimal mark, if the text shows it.
func (f Fact) readAmounts() (unit string, amounts []amount, mark string) {
	var digits []string
	switch {
	case f.Long > 0:
	case f.Kind == number:
		digits = []string{f.Value}
	case f.Kind == text:
		money, ok := typed.ReadAmount(f.lastName(), f.Value)
		if !ok {
			break
		}
		unit, digits, mark = money.Currency, []string{money.Amount}, money.DecimalMark
		if money.Ambiguous {
			point := len(money.Amount) - 3
			digits = append(digits, money.Amount[:point]+"."+money.Amount[point:])
		}
	}
	if unit == "" && f.Currency != "" {
		if unit = f.Currency; typed.NamesMinor(f.lastName()) {
			unit += smallest
		}
	}
	for _, one := range digits {
		a, ok := newAmount(one)
		if !ok {
			return "", nil, ""
		}
		amounts = append(amounts, a)
	}
	return unit, amounts, mark
}

func newAmount(digits string) (amount, bool) {
	if at := strings.IndexAny(digits, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(digits[at+1:])
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return amount{}, false
		}
	}
	rounded, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return amount{}, false
	}
	return amount{digits, rounded}, true
}

// exactValue returns the exact value.
func (a amount) exactValue() *big.Rat {
	value, _ := new(big.Rat).SetString(a.digits)
	return value
}

func compareAmounts(a, b amount) int {
	if a.rounded != b.rounded || a.digits == b.digits {
		return cmp.Compare(a.rounded, b.rounded)
	}
	return a.exactValue().Cmp(b.exactValue())
}

// findMedian returns the median of ordered amounts, rounded once.
func findMedian(amounts []amount) float64 {
	n := len(amounts)
	if n%2 == 1 {
		return amounts[n/2].rounded
	}
	sum := new(big.Rat).Add(amounts[n/2-1].exactValue(), amounts[n/2].exactValue())
	median, _ := sum.Quo(sum, big.NewRat(2, 1)).Float64()
	return median
}

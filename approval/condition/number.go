package condition

import (
	"errors"
	"math/big"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// exactBound is the bound of numbers in places without a schema. CEL compares an int with a double by rounding the int, which is exact
// below it.
const exactBound = 1 << 53

// Errors of numbers that have no exact value.
var (
	errNotWhole      = errors.New("must be a whole number")
	errIntegerRange  = errors.New("must be between -9223372036854775808 and 9223372036854775807")
	errInexact       = errors.New("has more digits than a number can hold")
	errNumberRange   = errors.New("is too large for a number")
	errUntypedNumber = errors.New("must be smaller than 9007199254740992, because the tool's schema does not say which type it has")
)

// parseInteger returns the value of a JSON number for a field of type integer. 1.0 and 1e2 are integers, as JSON Schema says.
func parseInteger(text string) (int64, error) {
	if !strings.ContainsAny(text, ".eE") {
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, errIntegerRange
		}
		return i, nil
	}
	d, ok := readDecimal(text)
	switch {
	case d.digits == "":
		return 0, nil
	case !ok && d.exponent > 0:
		return 0, errIntegerRange
	case !ok || d.exponent < 0:
		return 0, errNotWhole
	case len(d.digits)+d.exponent > 19:
		return 0, errIntegerRange
	}
	whole := d.digits + strings.Repeat("0", d.exponent)
	if d.negative {
		whole = "-" + whole
	}
	i, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, errIntegerRange
	}
	return i, nil
}

// parseDouble returns the value of a JSON number for a field of type number. The number must be the one that the shortest text of the
// double means: 0.1 is exact in this sense, 9007199254740993 is not.
func parseDouble(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, errNumberRange
	}
	if len(text) <= 15 && !strings.ContainsAny(text, "eE") { // 15 digits always survive
		return f + 0, nil // -0 becomes 0
	}
	if !isExact(text, f) {
		return 0, errInexact
	}
	return f + 0, nil
}

// isExact reports whether the shortest text of a double means the same number as text.
func isExact(text string, f float64) bool {
	written, ok := readDecimal(text)
	if written.digits == "" || f == 0 {
		return written.digits == "" && f == 0
	}
	shortest, _ := readDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	return ok && written == shortest
}

// ParseNumber returns the exact value of a JSON number. As in a condition, a number that servers may round is an error.
func ParseNumber(text string) (*big.Rat, error) {
	var err error
	if strings.ContainsAny(text, ".eE") {
		_, err = parseDouble(text)
	} else {
		_, err = parseInteger(text)
	}
	if err != nil {
		return nil, err
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, errNumberRange
	}
	return value, nil
}

// parseUntyped returns the value of a JSON number in a place without a schema: an int without fraction and exponent, otherwise a double.
func parseUntyped(text string) (ref.Val, error) {
	if !strings.ContainsAny(text, ".eE") {
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil || i <= -exactBound || i >= exactBound {
			return nil, errUntypedNumber
		}
		return types.Int(i), nil
	}
	f, err := parseDouble(text)
	switch {
	case err != nil:
		return nil, err
	case f <= -exactBound || f >= exactBound:
		return nil, errUntypedNumber
	}
	return types.Double(f), nil
}

// decimal is a number: digits × 10^exponent. Its digits neither begin nor end with zero; 0 has none.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// readDecimal reads the text of a number. It returns false if the exponent is beyond all reason; the sign of decimal.exponent tells its
// direction.
func readDecimal(text string) (decimal, bool) {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa, exponent := text, ""
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa, exponent = text[:at], text[at+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(d.digits, "0")
	if trimmed == "" {
		return decimal{}, true
	}
	ok := true
	if exponent != "" {
		var err error
		d.exponent, err = strconv.Atoi(exponent)
		if err != nil || d.exponent > 1<<30 || d.exponent < -1<<30 {
			ok = false
			d.exponent = 1 << 30
			if strings.HasPrefix(exponent, "-") {
				d.exponent = -1 << 30
			}
		}
	}
	d.exponent += len(d.digits) - len(trimmed) - len(fraction)
	d.digits = trimmed
	return d, ok
}

package typed

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MoneyValue is an amount with its currency.
type MoneyValue struct {
	Amount    string // a decimal number, exact, with a dot and without separators: "-1284.50"
	Currency  string // ISO 4217
	Minor     bool   // the amount counts the smallest unit of the currency, such as cents
	Ambiguous bool   // the separators may mean another amount; show the text
	// DecimalMark is "." or "," if the separators of a text show which one is the decimal mark, even of a whole number: "1,284,500" shows ".".
	DecimalMark string
}

// currencySymbols are the symbols of one currency each, or of its most usual one.
var currencySymbols = []struct{ symbol, code string }{ //nolint:gochecknoglobals // a table
	{"US$", "USD"},
	{"A$", "AUD"},
	{"C$", "CAD"},
	{"R$", "BRL"},
	{"HK$", "HKD"},
	{"$", "USD"},
	{"€", "EUR"},
	{"£", "GBP"},
	{"¥", "JPY"},
	{"₹", "INR"},
	{"₽", "RUB"},
	{"₺", "TRY"},
	{"₪", "ILS"},
	{"₩", "KRW"},
	{"₴", "UAH"},
	{"₾", "GEL"},
	{"฿", "THB"},
	{"₫", "VND"},
	{"zł", "PLN"},
	{"Kč", "CZK"},
}

// currencyOf returns the currency that a text names, or "".
func currencyOf(text string) string {
	text = strings.TrimSpace(text)
	if code := strings.ToUpper(text); len(code) >= 3 && len(code) <= 4 && currencyNames.hasWord(code) {
		return code
	}
	for _, one := range currencySymbols {
		if text == one.symbol {
			return one.code
		}
	}
	return ""
}

// siblingCurrency returns the currency that belongs to the member, and the text that names it or another one.
func (m member) siblingCurrency() (currency, text string) {
	text = m.siblingText(m.key+"_currency", m.key+"Currency", "currency", "currency_code", "currencyCode", "amount_currency", "amountCurrency")
	return currencyOf(text), text
}

// isAmount reports whether a member has the name of an amount.
func (m member) isAmount() bool { return m.isNamed(moneyWords) || m.isNamed(minorWords) }

// FindCurrency returns the currency that a sibling of an amount names, or the amount's own name: "amount_eur". A short text that names no
// known currency is returned in upper case, to tell it from others. Members without the name of an amount have no currency.
func FindCurrency(name string, siblings func(name string) (json.RawMessage, bool)) string {
	m := member{name: splitName(name), key: name, siblings: siblings}
	if !m.isAmount() {
		return ""
	}
	currency, text := m.findCurrency()
	if isHidden := func(r rune) bool { return !unicode.IsPrint(r) }; currency == "" && len(text) <= longCurrency && !strings.ContainsFunc(text, isHidden) {
		return strings.ToUpper(strings.TrimSpace(text))
	}
	return currency
}

// longCurrency is the number of bytes of the longest text that may be a currency.
const longCurrency = 32

// findCurrency returns the currency that a sibling or the name says, and the sibling.
func (m member) findCurrency() (currency, text string) {
	if currency, text = m.siblingCurrency(); currency != "" {
		return currency, text
	}
	for _, word := range m.name { // amount_eur
		if code := currencyOf(word); code != "" {
			currency = code
		}
	}
	return currency, text
}

// NamesMinor reports whether a member with this name counts the smallest unit of a currency, such as cents.
func NamesMinor(name string) bool {
	m := member{name: splitName(name)}
	return m.isNamed(minorWords)
}

// recognizeAmount recognizes a number whose sibling is a currency.
func (m member) recognizeAmount(v *Value, text string) bool {
	if !m.isAmount() {
		return false
	}
	currency, _ := m.findCurrency()
	amount, ok := expandDecimal(text)
	if currency == "" || !ok {
		return false
	}
	v.Kind, v.Money = Money, &MoneyValue{Amount: amount, Currency: currency, Minor: m.isNamed(minorWords)}
	return true
}

// expandDecimal writes a JSON number without an exponent.
func expandDecimal(text string) (string, bool) {
	if !isNumber(text) || len(text) > 64 {
		return "", false
	}
	mantissa, exponent, found := strings.Cut(strings.ToLower(text), "e")
	if !found {
		return text, true
	}
	shift, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	if err != nil || shift < -30 || shift > 30 {
		return "", false
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	point := len(whole) + shift
	digits := whole + fraction
	for point > len(digits) {
		digits += "0"
	}
	for point < 1 {
		digits, point = "0"+digits, point+1
	}
	whole = strings.TrimLeft(digits[:point-1], "0") + digits[point-1:point]
	if fraction = digits[point:]; fraction != "" {
		return sign + whole + "." + fraction, true
	}
	return sign + whole, true
}

// longMoney is the number of bytes of the longest text that may be an amount.
const longMoney = 48

// recognizeMoney recognizes "EUR 1,284.50", "1.284,50 €" and "1284.50" beside a currency.
func (m member) recognizeMoney(v *Value, text string, _ int) bool {
	text = strings.TrimSpace(text)
	if len(text) > longMoney {
		return false
	}
	if m.recognizeAmount(v, text) {
		return true
	}
	found, ok := parseMoney(text)
	if !ok {
		return false
	}
	if found.Currency == "" {
		if !m.isNamed(moneyWords) {
			return false
		}
		if found.Currency, _ = m.siblingCurrency(); found.Currency == "" {
			return false
		}
	}
	v.Kind, v.Money = Money, &found
	if found.Ambiguous {
		v.addWarning(AmbiguousAmount, text)
	}
	return true
}

// ReadAmount reads a text that is an amount: it names its currency, or the member has the name of an amount. A number with leading zeros is
// no amount.
func ReadAmount(name, text string) (MoneyValue, bool) {
	text = strings.TrimSpace(text)
	if len(text) > longMoney {
		return MoneyValue{}, false
	}
	found, ok := parseMoney(text)
	if !ok {
		return found, false
	}
	if found.Currency == "" {
		m := member{name: splitName(name)}
		if !m.isAmount() {
			return found, false
		}
		if isNumber(text) {
			found.Amount, found.Ambiguous = text, false
		}
	}
	return found, isNumber(found.Amount)
}

// parseMoney parses an amount with or without a currency.
func parseMoney(text string) (found MoneyValue, ok bool) {
	first := strings.IndexFunc(text, func(r rune) bool { return '0' <= r && r <= '9' })
	last := strings.LastIndexFunc(text, func(r rune) bool { return '0' <= r && r <= '9' })
	if first < 0 {
		return found, false
	}
	before, digits, after := strings.TrimSpace(text[:first]), text[first:last+1], strings.TrimSpace(text[last+1:])
	sign := ""
	for _, minus := range []string{"-", "−"} {
		if trimmed := strings.Trim(before, minus); trimmed != before {
			sign, before = "-", strings.TrimSpace(trimmed)
		}
	}
	currency := currencyOf(before + after)
	if before != "" && after != "" || currency == "" && before+after != "" {
		return found, false
	}
	amount, mark, ambiguous, ok := parseAmount(digits)
	return MoneyValue{Amount: sign + amount, Currency: currency, Ambiguous: ambiguous, DecimalMark: mark}, ok
}

// parseAmount reads digits with separators. Only digits follow the decimal mark, which is returned if it is known.
func parseAmount(text string) (amount, mark string, ambiguous, ok bool) {
	const spaces = " '’\u00a0\u202f\u2009_"
	decimal := strings.LastIndexAny(text, ".,")
	if decimal >= 0 {
		mark = text[decimal : decimal+1]
		others := strings.ContainsAny(text[:decimal], ".,"+spaces)
		switch decimals := len(text) - decimal - 1; {
		case strings.Count(text, mark) > 1: // 1,284,500
			mark = strings.Trim(".,", mark)
			if decimals != 3 || strings.Contains(text, mark) {
				return "", "", false, false
			}
			decimal = -1
		case decimals == 3 && !others && decimal <= 3 && text[0] != '0':
			decimal, mark, ambiguous = -1, "", true
		}
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case '0' <= r && r <= '9':
			b.WriteRune(r)
		case i == decimal:
			b.WriteByte('.')
		case decimal >= 0 && i > decimal, r != '.' && r != ',' && !strings.ContainsRune(spaces, r):
			return "", "", false, false
		}
		i += size
	}
	return b.String(), mark, ambiguous, b.Len() > 0
}

package lookalike

import "strings"

// shortestSwap is the number of characters from which two swapped neighbors are taken for a slip. In shorter values, such as "12" and
// "21", they are another value.
const shortestSwap = 8

// IsNear reports whether a person could take a value for a known one: they differ, and look alike or differ in letters that look alike in
// most fonts, such as "billlng" and "billing".
func IsNear(value, known string) bool {
	if value == known || value == "" || known == "" || strings.EqualFold(value, known) {
		return false
	}
	drawing := Drawing(value)
	return drawing != "" && drawing == Drawing(known)
}

// IsSwapped reports whether two values are equal but for two neighboring characters.
func IsSwapped(a, b string) bool {
	if len(a) != len(b) || len(a) < shortestSwap {
		return false
	}
	at := 0
	for at < len(a) && a[at] == b[at] {
		at++
	}
	return at+1 < len(a) && a[at] == b[at+1] && a[at+1] == b[at] && a[at] != a[at+1] && a[at+2:] == b[at+2:]
}

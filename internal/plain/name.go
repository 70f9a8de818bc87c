package plain

import "strings"

// MaxName is the greatest length of a name, in characters; see [IsName].
const MaxName = 100

// NameForm says what [IsName] asks for.
const NameForm = "must be 1 to 100 letters, digits, dots, dashes and underscores, and begin with a letter or digit"

// IsName reports whether a text may be the name of something that operators define and refer to, such as a rule.
func IsName(name string) bool {
	if name == "" || len(name) > MaxName || strings.ContainsRune("._-", rune(name[0])) {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r) {
			return false
		}
	}
	return true
}

// LowerASCII returns a text with the letters A to Z in lower case. It folds no others, because other scripts have look-alikes that fold to
// them.
func LowerASCII(text string) string { return strings.Map(lowerLetter, text) }

func lowerLetter(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

package hostile

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// lookalikes are the letters of other alphabets that are drawn like Latin ones.
var lookalikes = map[string]string{ //nolint:gochecknoglobals // a table
	"Cyrillic": "аеорсухіјѕһԁԛԝԍӏкАВЕКМНОРСТХІЈЅУԌԚԜӀ",
	"Greek":    "ονρικυτχαΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
	"Armenian": "օոսցզհՕՍ",
}

// together are the scripts that are written in one word by honest people.
func together(script string) bool {
	switch script {
	case "Latin", "Han", "Hiragana", "Katakana", "Hangul", "Bopomofo":
		return true
	}
	return false
}

// span is a run of code points of one script.
type span struct {
	first, last rune
	script      string
}

// spans are all scripts, by code point.
var spans = sync.OnceValue(func() []span { //nolint:gochecknoglobals // a table, made when first needed
	var all []span
	for script, table := range unicode.Scripts {
		if script == "Common" || script == "Inherited" {
			continue
		}
		for _, r := range table.R16 {
			all = appendSpans(all, script, rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range table.R32 {
			all = appendSpans(all, script, rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	return all
})

func appendSpans(all []span, script string, first, last, stride rune) []span {
	if stride == 1 {
		return append(all, span{first, last, script})
	}
	for r := first; r <= last; r += stride {
		all = append(all, span{r, r, script})
	}
	return all
}

// scriptOf names the script of a letter; "" when it belongs to none in particular.
func scriptOf(r rune) string {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return "Latin"
		}
		return ""
	}
	all := spans()
	i, found := slices.BinarySearchFunc(all, r, func(s span, r rune) int { return cmp.Compare(s.first, r) })
	if !found {
		i--
	}
	if i < 0 || r > all[i].last {
		return ""
	}
	return all[i].script
}

func scriptsOf(word string) []string {
	var found []string
	for _, r := range word {
		script := scriptOf(r)
		if script == "" || slices.Contains(found, script) {
			continue
		}
		found = append(found, script)
	}
	return found
}

// judge tells why a word may not be what it looks like; "" when there is no reason.
// own are the scripts that the value demonstrably writes in.
func judge(word string, own map[string]bool) string {
	if isASCII(word) {
		return ""
	}
	if plain := norm.NFKC.String(word); plain != word && isASCII(plain) {
		return "look-alike letters for “" + plain + "”"
	}
	scripts := scriptsOf(word)
	if len(scripts) > 1 && !allTogether(scripts) {
		return "mixes " + strings.Join(scripts, " and ")
	}
	if len(scripts) == 1 && lookalikes[scripts[0]] != "" && !own[scripts[0]] {
		return scripts[0] + " letters that look like Latin ones"
	}
	return ""
}

func allTogether(scripts []string) bool {
	for _, script := range scripts {
		if !together(script) {
			return false
		}
	}
	return true
}

// ownScripts are those in which text has a letter that no Latin one looks like: there the
// others are what they are.
func ownScripts(text string) map[string]bool {
	own := make(map[string]bool)
	for _, r := range text {
		if r < utf8.RuneSelf || !unicode.IsLetter(r) {
			continue
		}
		if script := scriptOf(r); script != "" && !strings.ContainsRune(lookalikes[script], r) {
			own[script] = true
		}
	}
	return own
}

// punycode is the real name of a host with letters outside ASCII; "" when text is no
// such host. An address with "//" or "@" before it is one, and so is any name with an
// ASCII top-level domain.
func punycode(text string, introduced bool) string {
	text = strings.Trim(text, ".-")
	dot := strings.LastIndexByte(text, '.')
	if dot <= 0 || isASCII(text) || !introduced && (!isASCII(text[dot:]) || len(text)-dot < 3) {
		return ""
	}
	ascii, err := idna.Punycode.ToASCII(strings.ToLower(text))
	if err != nil || !strings.Contains(ascii, "xn--") {
		return ""
	}
	return ascii
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func inWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

func inHost(r rune) bool {
	return r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

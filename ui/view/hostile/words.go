package hostile

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// lookalikes are the letters of other alphabets that are drawn like Latin ones, among scripts that many people write:
// those of UTS #39, and some that are only nearly so.
var lookalikes = map[string]string{ //nolint:gochecknoglobals // a table
	"Cyrillic": "аеорсухіјѕһԁԛԝԍӏкѡѵүҽАВЕКМНОРСТХІЈЅУԌԚԜӀѴҮ",
	"Greek":    "ονρικυτχαϲϳϱϸΑΒΕΖΗΙΚΜΝΟΡΤΥΧͿϜϹϺ",
	"Armenian": "օոսցզհՕՍ",
}

// widespread are the scripts that people write today in which a word that looks Latin is an accident (UAX #31, table 5);
// of the others letters that look like Latin ones are there to look so.
func widespread(script string) bool {
	switch script {
	case "Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi",
		"Han", "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Myanmar", "Oriya", "Sinhala",
		"Tamil", "Telugu", "Thaana", "Thai", "Tibetan":
		return true
	}
	return false
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

// longestPlain is how many bytes of what a word looks like are said.
const longestPlain = 80

// judge tells why a word may not be what it looks like; "" when there is no reason.
// own says whether the text around the word demonstrably is of a script.
func judge(word string, own func(script string) bool) string {
	if isASCII(word) {
		return ""
	}
	scripts := scriptsOf(word)
	if plain, found := foreignDigits(word); found {
		return saying("digits of another script", plain)
	}
	switch {
	case len(scripts) > 1 && !allTogether(scripts):
		return "mixes " + strings.Join(scripts, " and ")
	case len(scripts) == 0 || len(scripts) == 1 && scripts[0] == "Latin":
		if plain, found := plainly(word); found {
			return saying("look-alike letters", plain)
		}
	case len(scripts) == 1 && looksLatin(word, scripts[0]) && (!widespread(scripts[0]) || !own(scripts[0])):
		return scripts[0] + " letters that look like Latin ones"
	case slices.Contains(scripts, "Latin"):
		return strokeWithin(word)
	}
	return ""
}

func saying(what, plain string) string {
	if len(plain) > longestPlain {
		return what
	}
	return what + " for “" + plain + "”"
}

// looksLatin reports whether a word of one script could be taken for one in Latin letters.
func looksLatin(word, script string) bool {
	letters, alike := 0, 0
	for _, r := range word {
		if scriptOf(r) != script {
			continue
		}
		letters++
		if widespread(script) && strings.ContainsRune(lookalikes[script], r) ||
			!widespread(script) && (letterLike(r) != "" || letterLike(unicode.ToUpper(r)) != "") {
			alike++
		}
	}
	if widespread(script) {
		return alike == letters
	}
	return 2*alike >= letters
}

// strokeWithin finds a letter between ASCII ones that is drawn like a slash.
func strokeWithin(word string) string {
	runes := []rune(word)
	for i := 1; i+1 < len(runes); i++ {
		like := prototypes()[runes[i]]
		if strings.Trim(like, `/\`) == "" && like != "" && runes[i-1] < utf8.RuneSelf && runes[i+1] < utf8.RuneSelf {
			return "“" + string(runes[i]) + "” looks like “" + like + "”"
		}
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

// ownScripts are those that a line demonstrably is in: at least as many of its words have a letter that no Latin one
// looks like as are Latin, and they are at least as long as all those words without one.
func ownScripts(line string) map[string]bool {
	latin := 0
	words, obvious, unclear := map[string]int{}, map[string]int{}, map[string]int{} // by script; the latter two in letters
	for word := range strings.FieldsFuncSeq(line, apart) {
		script, letters, isClear := evidence(word)
		switch {
		case script == "Latin":
			latin++
		case isClear:
			words[script]++
			obvious[script] += letters
		default:
			unclear[script] += letters
		}
	}
	own := make(map[string]bool)
	for script, n := range words {
		own[script] = n >= latin && obvious[script] >= unclear[script]
	}
	return own
}

// apart reports whether words on both sides of r are two: JSON puts quotes around what it is made of.
func apart(r rune) bool { return r == '"' || unicode.IsSpace(r) }

// evidence is what a word says of its line's script: which one it is in, with how many letters, and whether one of
// them looks like no Latin letter. A word with clear letters is one of their script, whatever else is in it.
func evidence(word string) (script string, letters int, isClear bool) {
	for _, r := range word {
		of := scriptOf(r)
		if of == "" || !unicode.IsLetter(r) {
			continue
		}
		letters++
		switch obvious := of != "Latin" && (letterLike(r) == "" || !strings.ContainsRune(lookalikes[of], r)); {
		case obvious && !isClear:
			script, isClear = of, true
		case script == "", script == "Latin":
			script = of
		}
	}
	return script, letters, isClear
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
	return r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || unicode.Is(unicode.Nl, r) || enclosed(r)
}

// enclosed reports whether r is a letter in a circle or square.
func enclosed(r rune) bool { return 'Ⓐ' <= r && r <= 'ⓩ' || '🄰' <= r && r <= '🅉' }

func inHost(r rune) bool {
	return r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

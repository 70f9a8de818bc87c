package hostile

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/holdpoint/holdpoint/ui/text"
)

// lookalikes are the letters that are drawn like Latin letters, in scripts that many people write: those of UTS #39, and some that
// are only similar.
var lookalikes = map[string]string{ //nolint:gochecknoglobals // a table
	"Cyrillic": "аеорсухіјѕһԁԛԝԍӏкѡѵүҽАВЕКМНОРСТХІЈЅУԌԚԜӀѴҮ",
	"Greek":    "ονρικυτχαϲϳϱϸΑΒΕΖΗΙΚΜΝΟΡΤΥΧͿϜϹϺ",
	"Armenian": "օոսցզհՕՍ",
}

// isWidespread reports whether people write a script today (UAX #31, table 5). A word of such a script may look Latin by accident; in
// other scripts, it was chosen for its look.
func isWidespread(script string) bool {
	switch script {
	case "Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi",
		"Han", "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Myanmar", "Oriya", "Sinhala",
		"Tamil", "Telugu", "Thaana", "Thai", "Tibetan":
		return true
	}
	return false
}

// isWrittenTogether reports whether honest words mix the script with others.
func isWrittenTogether(script string) bool {
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

// spans returns the runs of all scripts, in the order of code points.
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

// scriptOf returns the script of a letter, or "" if it belongs to none.
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

// longestPlain is the number of bytes up to which a note repeats the Latin look of a word.
const longestPlain = 80

// judgeWord returns why a word may deceive, or no text, and whether honest texts have such words too.
func judgeWord(word string, around *surroundings) (why text.Message, quiet bool) {
	if isASCII(word) {
		return text.Message{}, false
	}
	scripts := scriptsOf(word)
	if plain, script, found := replaceForeignDigits(word); found {
		if len(plain) > longestPlain {
			why = text.CharacterDigits()
		} else {
			why = text.CharacterDigitsFor(plain)
		}
		return why, !strings.ContainsFunc(word, isAlphanumeric) && around.owns(script)
	}
	switch {
	case len(scripts) > 1 && !areWrittenTogether(scripts):
		if isUnit(word) {
			return text.Message{}, false
		}
		return text.CharacterMixed(nameScripts(scripts)), false
	case len(scripts) == 0 || len(scripts) == 1 && scripts[0] == "Latin":
		if plain, found := replaceLookalikes(word); found {
			if len(plain) > longestPlain {
				why = text.CharacterLookAlikes()
			} else {
				why = text.CharacterLookAlikesFor(plain)
			}
			return why, isHonestLatin(word, around)
		}
	case len(scripts) == 1 && looksLatin(word, scripts[0]) && (!isWidespread(scripts[0]) || !around.owns(scripts[0])):
		return text.CharacterLooksLatin(nameScript(scripts[0])), isWidespread(scripts[0]) && !around.hasLatin()
	case slices.Contains(scripts, "Latin"):
		return findStroke(word), false
	}
	return text.Message{}, false
}

// isHonestLatin reports whether the only look-alikes of a word are the dotless i of Turkish, or full-width letters in a line of East Asian
// text.
func isHonestLatin(word string, around *surroundings) bool {
	dotless, wide := true, true
	for _, r := range word {
		if letterLike(r) == "" {
			continue
		}
		dotless = dotless && r == 'ı'
		wide = wide && 0xFF01 <= r && r <= 0xFF5E
	}
	if dotless {
		return around.isTurkish() || !around.isInIdentifier()
	}
	return wide && slices.ContainsFunc([]string{"Han", "Hiragana", "Katakana", "Hangul"}, around.owns)
}

// isUnit reports whether a word is a unit of measurement with a Greek letter: kΩ, μF.
func isUnit(word string) bool {
	runes := []rune(word)
	if len(runes) > 3 {
		return false
	}
	return runes[len(runes)-1] == 'Ω' && isASCII(string(runes[:len(runes)-1])) || runes[0] == 'μ' && isASCII(string(runes[1:]))
}

// isHonestHost reports whether each label of a host is in one script and does not look like a Latin word.
func isHonestHost(host string) bool {
	for label := range strings.FieldsFuncSeq(host, func(r rune) bool { return r == '.' || r == '-' }) {
		scripts := scriptsOf(label)
		_, _, digits := replaceForeignDigits(label)
		switch {
		case isASCII(label):
		case len(scripts) != 1 && !areWrittenTogether(scripts), digits, !findStroke(label).IsZero():
			return false
		case scripts[0] == "Latin":
			if _, found := replaceLookalikes(label); found {
				return false
			}
		case looksLatin(label, scripts[0]):
			return false
		}
	}
	return true
}

// nameScripts names several scripts, such as "Latin and Cyrillic".
func nameScripts(scripts []string) text.Message {
	all := nameScript(scripts[0])
	for _, script := range scripts[1:] {
		all = text.CharacterAnd(all, nameScript(script))
	}
	return all
}

// nameScript names a script. Rare ones have their Unicode name in every language.
func nameScript(script string) text.Message {
	switch script {
	case "Latin":
		return text.CharacterLatin()
	case "Arabic":
		return text.CharacterArabic()
	case "Armenian":
		return text.CharacterArmenian()
	case "Cherokee":
		return text.CharacterCherokee()
	case "Coptic":
		return text.CharacterCoptic()
	case "Cyrillic":
		return text.CharacterCyrillic()
	case "Devanagari":
		return text.CharacterDevanagari()
	case "Georgian":
		return text.CharacterGeorgian()
	case "Greek":
		return text.CharacterGreek()
	case "Han":
		return text.CharacterHan()
	case "Hangul":
		return text.CharacterHangul()
	case "Hebrew":
		return text.CharacterHebrew()
	case "Hiragana":
		return text.CharacterHiragana()
	case "Katakana":
		return text.CharacterKatakana()
	case "Lisu":
		return text.CharacterLisu()
	case "Thai":
		return text.CharacterThai()
	}
	return text.Literal(script)
}

// looksLatin reports whether a reader could take a word of another script for a Latin word.
func looksLatin(word, script string) bool {
	letters, alike := 0, 0
	for _, r := range word {
		if scriptOf(r) != script {
			continue
		}
		letters++
		if isWidespread(script) && strings.ContainsRune(lookalikes[script], r) ||
			!isWidespread(script) && (letterLike(r) != "" || letterLike(unicode.ToUpper(r)) != "") {
			alike++
		}
	}
	if isWidespread(script) {
		return alike == letters
	}
	return 2*alike >= letters
}

// findStroke describes a letter between ASCII letters that is drawn like a slash.
func findStroke(word string) text.Message {
	runes := []rune(word)
	for i := 1; i+1 < len(runes); i++ {
		like := prototypes()[runes[i]]
		if strings.Trim(like, `/\`) == "" && like != "" && runes[i-1] < utf8.RuneSelf && runes[i+1] < utf8.RuneSelf {
			return text.CharacterStroke(string(runes[i]), like)
		}
	}
	return text.Message{}
}

func areWrittenTogether(scripts []string) bool {
	for _, script := range scripts {
		if !isWrittenTogether(script) {
			return false
		}
	}
	return true
}

// findOwnScripts returns the scripts that a line is demonstrably in, and Latin if there is a Latin word. A word is clear if it has a letter that looks like no Latin letter.
// A script needs at least as many clear words as there are Latin words, with at least as many letters as its unclear words.
func findOwnScripts(line string) map[string]bool {
	latin := 0
	words, obvious, unclear := map[string]int{}, map[string]int{}, map[string]int{} // by script; the latter two in letters
	for word := range strings.FieldsFuncSeq(line, isWordBreak) {
		script, letters, isClear := readEvidence(word)
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
	own := map[string]bool{"Latin": latin > 0}
	for script, n := range words {
		own[script] = n >= latin && obvious[script] >= unclear[script]
	}
	return own
}

// isWordBreak reports whether r separates words. Quotes do, since they surround the strings of JSON.
func isWordBreak(r rune) bool { return r == '"' || unicode.IsSpace(r) }

// readEvidence returns the script of a word, its number of letters, and whether one of them looks like no Latin letter. If so, that
// letter decides the script.
func readEvidence(word string) (script string, letters int, isClear bool) {
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

// encodeHost returns the ASCII form of a host with letters outside ASCII (RFC 3492), or "" if the text is no such host. A text is a host
// if "//" or "@" introduces it, or if it has an ASCII top-level domain.
func encodeHost(host string, introduced bool) string {
	host = strings.Trim(host, ".-")
	dot := strings.LastIndexByte(host, '.')
	if dot <= 0 || isASCII(host) || !introduced && (!isASCII(host[dot:]) || len(host)-dot < 3) {
		return ""
	}
	ascii, err := idna.Punycode.ToASCII(strings.ToLower(host))
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

func isInWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || unicode.Is(unicode.Nl, r) || isEnclosed(r)
}

// isEnclosed reports whether r is a letter in a circle or square.
func isEnclosed(r rune) bool { return 'Ⓐ' <= r && r <= 'ⓩ' || '🄰' <= r && r <= '🅉' }

func isInHost(r rune) bool {
	return r == '.' || r == '-' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}

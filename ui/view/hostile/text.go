package hostile

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/ui/text"
)

const (
	longGap  = 32  // spaces; longer runs become a chip with a count
	longHost = 253 // bytes; no host name is longer
)

// Show turns a whole text into pieces.
func Show(value string) []Piece {
	s := scanner{text: value}
	return s.readAll()
}

// ShowValue is [Show] for a value that stands alone: an empty value becomes a chip.
func ShowValue(value string) []Piece {
	if value == "" {
		return []Piece{{Kind: Chip, Text: LabelEmpty, Note: text.CharacterEmptyNote(), Count: 1}}
	}
	return Show(value)
}

// scanner goes through a text once.
type scanner struct {
	text  string
	at    int
	from  int // the begin of the plain text that is not yet in out
	out   []Piece
	noURL int    // no host name begins before this position
	stops []stop // at begins of lines, in their order

	own   map[string]bool // the result of findOwnScripts for the line that ends at known
	known int
}

func (s *scanner) readAll() []Piece {
	for {
		for len(s.stops) > 0 && s.stops[0].at <= s.at {
			s.flushPlain()
			s.out = append(s.out, s.stops[0].piece)
			s.at, s.from = s.stops[0].next, s.stops[0].next
			s.stops = s.stops[1:]
		}
		if s.at >= len(s.text) {
			s.flushPlain()
			return s.out
		}
		s.readRune()
	}
}

func (s *scanner) readRune() {
	r, size := utf8.DecodeRuneInString(s.text[s.at:])
	switch {
	case r == utf8.RuneError && size == 1:
		s.addPiece(chipOfByte(s.text[s.at]), 1)
	case unicode.IsMark(r) && isVisible(r) && s.continuesWord():
		s.readWord()
	case r == '\n':
		s.addPiece(Piece{Kind: Break, Text: `\n`, Count: 1}, 1)
	case r == ' ':
		s.readSpaces()
	case unicode.IsMark(r), !isVisible(r): // a mark here has no letter to stand on
		chip := chipOf(r)
		chip.Quiet = isOrdinary(s.text, s.at, r)
		s.addPiece(chip, size)
	case isInWord(r):
		s.readWord()
	default:
		s.readSymbol(r, size)
	}
}

// readSymbol reads a character that is no letter.
func (s *scanner) readSymbol(r rune, size int) {
	if r >= utf8.RuneSelf {
		before, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s.text[max(0, s.at-aroundSymbol):s.at], " ）］｝」』】"))
		after, _ := utf8.DecodeRuneInString(s.text[s.at+size:])
		spaced := s.at > 0 && !strings.ContainsAny(s.text[s.at-1:s.at], " \n\t\"'`(=")
		if why := judgeSymbol(r, before, after, spaced); !why.IsZero() {
			s.addPiece(Piece{Kind: Suspect, Text: s.text[s.at : s.at+size], Note: why, Count: 1}, size)
			return
		}
	}
	s.at += size
}

// aroundSymbol is the number of bytes before a symbol that are examined.
const aroundSymbol = 16

// flushPlain moves the plain text before the current position to out.
func (s *scanner) flushPlain() {
	if s.from == s.at {
		return
	}
	plain := s.text[s.from:s.at]
	s.from = s.at
	if n := len(s.out); n > 0 && s.out[n-1].Kind == Plain {
		s.out[n-1].Text += plain
		return
	}
	s.out = append(s.out, Piece{Kind: Plain, Text: plain, Count: 1})
}

// addPiece adds a piece for the next size bytes. Equal chips in a row become one.
func (s *scanner) addPiece(p Piece, size int) {
	s.flushPlain()
	s.at += size
	s.from = s.at
	if n := len(s.out); n > 0 && p.Kind != Suspect && s.out[n-1].Kind == p.Kind && s.out[n-1].Text == p.Text && s.out[n-1].Quiet == p.Quiet {
		s.out[n-1].Count += p.Count
		return
	}
	s.out = append(s.out, p)
}

// readSpaces accepts a few spaces between words. Spaces at the ends of a text or line are invisible, and long runs push the
// following text out of sight, so these become chips.
func (s *scanner) readSpaces() {
	end := s.at
	for end < len(s.text) && s.text[end] == ' ' {
		end++
	}
	n := end - s.at
	if s.at == 0 || end == len(s.text) || s.text[end] == '\n' || n > longGap {
		s.addPiece(Piece{Kind: Chip, Text: LabelSpace, Note: text.CharacterSpace(), Count: n}, n)
		return
	}
	s.at = end
}

func (s *scanner) readWord() {
	end := s.findRunEnd(isInWord, len(s.text))
	word := s.text[s.at:end]
	if isASCII(word) && !s.mayBeginHost(end) {
		s.at = end
		return
	}
	if s.at >= s.noURL && s.readHost() {
		return
	}
	if crowded := findCrowdedMark(word); crowded >= 0 {
		s.at += crowded
		s.chipMarks(end)
		return
	}
	if why, quiet := judgeWord(word, &surroundings{scanner: s, end: end}); !why.IsZero() {
		s.addPiece(Piece{Kind: Suspect, Text: word, Note: why, Count: 1, Quiet: quiet}, len(word))
		return
	}
	s.at = end
}

// readHost reads a host name with letters outside ASCII, if one begins here.
func (s *scanner) readHost() bool {
	end := s.findRunEnd(isInHost, s.at+longHost)
	name := s.text[s.at:end]
	address := encodeHost(name, s.followsHostMark())
	if address == "" {
		s.noURL = end
		return false
	}
	s.addPiece(Piece{Kind: Suspect, Text: name, Note: text.CharacterHost(address), Count: 1, Quiet: isHonestHost(name)}, len(name))
	return true
}

// findRunEnd returns the end of the run of runes that satisfy in, from the current position on.
func (s *scanner) findRunEnd(in func(rune) bool, limit int) int {
	end := s.at
	for end < min(limit, len(s.text)) {
		r, size := utf8.DecodeRuneInString(s.text[end:])
		if r == utf8.RuneError && size == 1 || !in(r) || !isVisible(r) {
			break
		}
		end += size
	}
	return end
}

// mayBeginHost reports whether a host name may begin with the ASCII word that ends at end.
func (s *scanner) mayBeginHost(end int) bool {
	return end+1 < len(s.text) && (s.text[end] == '.' || s.text[end] == '-') && s.text[end+1] != ' '
}

// followsHostMark reports whether the text before the current position announces a host.
func (s *scanner) followsHostMark() bool {
	before := s.text[:s.at]
	return strings.HasSuffix(before, "//") || strings.HasSuffix(before, "@")
}

// surroundings tell about the text around the word that the scanner is at.
type surroundings struct {
	scanner *scanner
	end     int // of the word
}

// owns reports whether the line is demonstrably in a script. A word that is joined to Latin letters, as in a path, is judged without its
// line.
func (a *surroundings) owns(script string) bool {
	return !a.scanner.isJoinedToLatin(a.end) && a.scanner.readLine()[script]
}

// hasLatin reports whether there are Latin words in the line.
func (a *surroundings) hasLatin() bool {
	return a.scanner.readLine()["Latin"] || a.scanner.isJoinedToLatin(a.end)
}

// isInIdentifier reports whether the word is a part of a path, an address or an identifier.
func (a *surroundings) isInIdentifier() bool {
	whole, at := a.scanner.text, a.scanner.at
	if at > 0 && strings.IndexByte(`/\.@:-$=`, whole[at-1]) >= 0 {
		return true
	}
	rest := whole[a.end:]
	return rest != "" && strings.IndexByte(`/\@:=-(`, rest[0]) >= 0 || len(rest) > 1 && rest[0] == '.' && isAlphanumeric(rune(rest[1]))
}

// isTurkish reports whether the line has another letter that Turkish has and English does not.
func (a *surroundings) isTurkish() bool {
	return strings.ContainsAny(a.scanner.line(), "ğĞşŞİçÇöÖüÜəƏ")
}

// line returns the line at the current position.
func (s *scanner) line() string {
	from, to := strings.LastIndexByte(s.text[:s.at], '\n')+1, len(s.text)
	if length := strings.IndexByte(s.text[s.at:], '\n'); length >= 0 {
		to = s.at + length
	}
	return s.text[max(from, s.at-aroundLetter):min(to, s.at+aroundLetter)]
}

// aroundLetter is the number of bytes before and after a letter that are examined for others of its language.
const aroundLetter = 512

// readLine returns the scripts of the line at the current position: see [findOwnScripts].
func (s *scanner) readLine() map[string]bool {
	if s.own == nil || s.at >= s.known {
		from := strings.LastIndexByte(s.text[:s.at], '\n') + 1
		s.known = len(s.text)
		if length := strings.IndexByte(s.text[s.at:], '\n'); length >= 0 {
			s.known = s.at + length
		}
		s.own = findOwnScripts(s.text[from:s.known])
	}
	return s.own
}

// continuesWord reports whether the current position is behind a joiner that belongs to the word before it.
func (s *scanner) continuesWord() bool {
	n := len(s.out)
	return n > 0 && s.from == s.at && s.out[n-1].Kind == Chip && s.out[n-1].Quiet && isJoiner(s.text[:s.at])
}

// joinedWithin is the number of bytes before and after a word that isJoinedToLatin examines.
const joinedWithin = 128

// isJoinedToLatin reports whether ASCII letters adjoin the word between the current position and end, without a space.
func (s *scanner) isJoinedToLatin(end int) bool {
	before, after := s.text[max(0, s.at-joinedWithin):s.at], s.text[end:min(len(s.text), end+joinedWithin)]
	before = before[strings.LastIndexFunc(before, isWordBreak)+1:]
	if space := strings.IndexFunc(after, isWordBreak); space >= 0 {
		after = after[:space]
	}
	return strings.ContainsFunc(before+after, func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) })
}

// findCrowdedMark returns the position of the first mark beyond those that any script puts on one letter, or -1.
func findCrowdedMark(word string) int {
	marks := 0
	for i, r := range word {
		if !unicode.IsMark(r) {
			marks = 0
			continue
		}
		if marks++; marks > maxRowOfMarks {
			return i
		}
	}
	return -1
}

// chipMarks turns the marks at the current position into chips.
func (s *scanner) chipMarks(end int) {
	for s.at < end {
		r, size := utf8.DecodeRuneInString(s.text[s.at:])
		if !unicode.IsMark(r) {
			return
		}
		s.addPiece(chipOf(r), size)
	}
}

package hostile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	longGap  = 32  // more spaces than this in a row are counted, not drawn
	longHost = 253 // bytes; no host name is longer
)

// Show turns text into pieces. It leaves nothing out.
func Show(text string) []Piece {
	s := scanner{text: text}
	for s.at < len(s.text) {
		s.next()
	}
	s.flush()
	return s.out
}

// ShowValue is Show for a value that stands alone: an empty one is visible too.
func ShowValue(text string) []Piece {
	if text == "" {
		return []Piece{{Kind: Chip, Text: labelEmpty, Note: "text of no characters", Count: 1}}
	}
	return Show(text)
}

// scanner goes through a text once.
type scanner struct {
	text  string
	at    int
	from  int // where the plain text that is not yet in out begins
	out   []Piece
	noURL int // up to here no host name begins

	own   map[string]bool // see ownScripts; of the line that ends at known
	known int
}

func (s *scanner) next() {
	r, size := utf8.DecodeRuneInString(s.text[s.at:])
	switch {
	case r == utf8.RuneError && size == 1:
		s.put(badByte(s.text[s.at]), 1)
	case r == '\n':
		s.put(Piece{Kind: Break, Text: `\n`, Note: "line break", Count: 1}, 1)
	case r == ' ':
		s.spaces()
	case unicode.IsMark(r), !visible(r): // a mark here has no letter to stand on
		s.put(chipOf(r), size)
	case inWord(r):
		s.word()
	default:
		s.symbol(r, size)
	}
}

// symbol takes a character that is no letter.
func (s *scanner) symbol(r rune, size int) {
	if r >= utf8.RuneSelf {
		before, _ := utf8.DecodeLastRuneInString(strings.TrimRight(s.text[max(0, s.at-aroundSymbol):s.at], " "))
		after, _ := utf8.DecodeRuneInString(s.text[s.at+size:])
		spaced := s.at > 0 && !strings.ContainsAny(s.text[s.at-1:s.at], " \n\t\"'`(=")
		if why := judgeSymbol(r, before, after, spaced); why != "" {
			s.put(Piece{Kind: Suspect, Text: s.text[s.at : s.at+size], Note: why, Count: 1}, size)
			return
		}
	}
	s.at += size
}

// aroundSymbol is how many bytes before a symbol are looked at.
const aroundSymbol = 16

// flush moves the plain text before the present position to out.
func (s *scanner) flush() {
	if s.from == s.at {
		return
	}
	text := s.text[s.from:s.at]
	s.from = s.at
	if n := len(s.out); n > 0 && s.out[n-1].Kind == Plain {
		s.out[n-1].Text += text
		return
	}
	s.out = append(s.out, Piece{Kind: Plain, Text: text, Count: 1})
}

// put adds a piece that stands for the next size bytes. Equal chips in a row are one.
func (s *scanner) put(p Piece, size int) {
	s.flush()
	s.at += size
	s.from = s.at
	if n := len(s.out); n > 0 && p.Kind != Suspect && s.out[n-1].Kind == p.Kind && s.out[n-1].Text == p.Text {
		s.out[n-1].Count += p.Count
		return
	}
	s.out = append(s.out, p)
}

// spaces lets a few spaces between words pass. Those at the ends of a text or
// line cannot be seen, and many in a row push what follows out of sight.
func (s *scanner) spaces() {
	end := s.at
	for end < len(s.text) && s.text[end] == ' ' {
		end++
	}
	n := end - s.at
	if s.at == 0 || end == len(s.text) || s.text[end] == '\n' || n > longGap {
		s.put(Piece{Kind: Chip, Text: labelSpace, Note: "space", Count: n}, n)
		return
	}
	s.at = end
}

func (s *scanner) word() {
	end := s.extent(inWord, len(s.text))
	word := s.text[s.at:end]
	if isASCII(word) && !s.beforeHost(end) {
		s.at = end
		return
	}
	if s.at >= s.noURL && s.host() {
		return
	}
	if crowded := crowdedAt(word); crowded >= 0 {
		s.at += crowded
		s.crowd(end)
		return
	}
	if why := judge(word, s.owns(end)); why != "" {
		s.put(Piece{Kind: Suspect, Text: word, Note: why, Count: 1}, len(word))
		return
	}
	s.at = end
}

// host takes a host name with letters outside ASCII, if one begins here.
func (s *scanner) host() bool {
	end := s.extent(inHost, s.at+longHost)
	name := s.text[s.at:end]
	address := punycode(name, s.introduced())
	if address == "" {
		s.noURL = end
		return false
	}
	s.put(Piece{Kind: Suspect, Text: name, Note: "this address is really " + address, Count: 1}, len(name))
	return true
}

// extent is where the run of runes that satisfy in, from the present position on, ends.
func (s *scanner) extent(in func(rune) bool, limit int) int {
	end := s.at
	for end < min(limit, len(s.text)) {
		r, size := utf8.DecodeRuneInString(s.text[end:])
		if r == utf8.RuneError && size == 1 || !in(r) || !visible(r) {
			break
		}
		end += size
	}
	return end
}

// beforeHost reports whether an ASCII word may be the beginning of a host name.
func (s *scanner) beforeHost(end int) bool {
	return end+1 < len(s.text) && (s.text[end] == '.' || s.text[end] == '-') && s.text[end+1] != ' '
}

// introduced reports whether the text before says that a host follows.
func (s *scanner) introduced() bool {
	before := s.text[:s.at]
	return strings.HasSuffix(before, "//") || strings.HasSuffix(before, "@")
}

// owns says whether the line of the word at the present position is demonstrably in a script. A word that is joined
// to Latin ones, as in a path, stands for itself.
func (s *scanner) owns(end int) func(script string) bool {
	return func(script string) bool {
		if s.joined(end) {
			return false
		}
		if s.own == nil || s.at >= s.known {
			from := strings.LastIndexByte(s.text[:s.at], '\n') + 1
			s.known = len(s.text)
			if length := strings.IndexByte(s.text[s.at:], '\n'); length >= 0 {
				s.known = s.at + length
			}
			s.own = ownScripts(s.text[from:s.known])
		}
		return s.own[script]
	}
}

// joinedWithin is how many bytes before and after a word are looked at for what it is joined to.
const joinedWithin = 128

// joined reports whether ASCII letters stand beside the word at the present position, with no space between.
func (s *scanner) joined(end int) bool {
	before, after := s.text[max(0, s.at-joinedWithin):s.at], s.text[end:min(len(s.text), end+joinedWithin)]
	before = before[strings.LastIndexFunc(before, apart)+1:]
	if space := strings.IndexFunc(after, apart); space >= 0 {
		after = after[:space]
	}
	return strings.ContainsFunc(before+after, func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) })
}

// crowdedAt is where more marks stand on one letter than any script needs; -1: nowhere.
func crowdedAt(word string) int {
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

// crowd makes chips of the marks at the present position.
func (s *scanner) crowd(end int) {
	for s.at < end {
		r, size := utf8.DecodeRuneInString(s.text[s.at:])
		if !unicode.IsMark(r) {
			return
		}
		s.put(chipOf(r), size)
	}
}

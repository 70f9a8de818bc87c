// Package hostile owns how text from outside is shown: tool names, arguments,
// results, descriptions. It reads the bytes as they are stored, token by token where they
// are JSON, and says what is to be seen: plain text, chips in place of what nobody could
// see, words that may not be what they look like, and, with exact counts, what was left out.
// It knows nothing of HTML, and nothing it returns is markup.
package hostile

// Kind says what a [Piece] is.
type Kind uint8

// The kinds of pieces.
const (
	Plain   Kind = iota // text, shown as it is
	Chip                // a character that would not be seen, or that moves others
	Break               // a line break, shown as \n before the line ends
	Suspect             // a word that may not be what it looks like
	Secret              // a value that is not shown; Text is its [Fingerprint], Count is how many characters it has
)

// Piece is a part of a shown text.
type Piece struct {
	Kind  Kind
	Text  string // the text; of a chip its label, "U+202E"
	Note  string // of chips and suspects: what it is, in words
	Count int    // how often a chip or break stands here in a row; at least 1
}

// Harmless reports whether a chip stands for an ordinary character, which is only shown
// because it could not be told from nothing.
func (p Piece) Harmless() bool {
	switch p.Text {
	case labelTab, labelReturn, labelSpace, labelEmpty:
		return true
	}
	return false
}

// Findings count what was made visible.
type Findings struct {
	Hidden  int // characters that nobody would have seen
	Suspect int // words that may not be what they look like
}

func (f *Findings) add(v Value) {
	of := v.Findings()
	f.Hidden += of.Hidden
	f.Suspect += of.Suspect
}

func (f *Findings) addPieces(pieces []Piece) {
	for _, p := range pieces {
		switch p.Kind {
		case Chip:
			if !p.Harmless() {
				f.Hidden += p.Count
			}
		case Suspect:
			f.Suspect++
		case Plain, Break, Secret:
		}
	}
}

// Value is a text, shown whole or cut.
type Value struct {
	Head []Piece
	Cut  *Cut    // nil: nothing was left out
	Tail []Piece // after the cut

	cutHidden int // hidden characters in what was left out
}

// Findings count all hidden characters of the value, and the suspect words of what is shown.
func (v Value) Findings() Findings {
	f := Findings{Hidden: v.cutHidden}
	f.addPieces(v.Head)
	f.addPieces(v.Tail)
	return f
}

// Cut says exactly what was left out of a value.
type Cut struct {
	Lines  int // line breaks left out
	Runes  int // characters left out
	Bytes  int // length of the whole value
	SHA256 string
	Opaque bool // the value looks like encoded data
}

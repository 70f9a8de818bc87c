// Package hostile decides how text from outside is shown: tool names, arguments, results, descriptions. It reads the stored bytes,
// token by token if they are JSON, and returns pieces: plain text, chips for invisible characters, words that may deceive, and cuts
// with exact counts. It does not know HTML, and returns no markup.
package hostile

import "github.com/holdpoint/holdpoint/ui/text"

// Kind is the kind of a [Piece].
type Kind uint8

// The kinds of pieces.
const (
	Plain   Kind = iota // text, shown as it is
	Chip                // a character that is invisible or moves others
	Break               // a line break, shown as \n before the line ends
	Suspect             // a word that may deceive
	Secret              // a hidden value; Text is its [Fingerprint], Count its number of characters
	Repeat              // stands for the repetitions of the line before it; Count is the number of identical lines
	Anchor              // a place that an [Outlier] leads to; Text is its id
)

// Piece is a part of a shown text.
type Piece struct {
	Kind  Kind
	Text  string       // the text; of a chip its label, "U+202E"
	Note  text.Message // describes chips, suspects and secrets
	Count int          // of equal chips or breaks in a row; at least 1
	Quiet bool         // honest texts have such chips and suspects too: they are shown, and are no reason for an alarm
}

// Harmless reports whether a chip or suspect is quiet, or stands for an ordinary character that would only be hard to notice, such as a
// space at the end.
func (p Piece) Harmless() bool {
	if p.Quiet {
		return true
	}
	if p.Kind != Chip {
		return false
	}
	switch p.Text {
	case labelTab, labelReturn, LabelSpace, LabelEmpty:
		return true
	}
	return false
}

// Findings count the tricks that were made visible. Hidden and Suspect are reasons for an alarm, Quiet is none.
type Findings struct {
	Hidden  int // invisible characters
	Suspect int // words that may deceive
	Quiet   int // pieces that honest texts have too: see [Piece.Quiet]
}

// IsAlarming reports whether there is a trick that honest texts do not have.
func (f *Findings) IsAlarming() bool { return f.Hidden > 0 || f.Suspect > 0 }

func (f *Findings) addValue(v Value) {
	of := v.Findings()
	f.add(of)
}

func (f *Findings) add(of Findings) {
	f.Hidden += of.Hidden
	f.Suspect += of.Suspect
	f.Quiet += of.Quiet
}

func (f *Findings) addPieces(pieces []Piece) {
	for _, p := range pieces {
		switch p.Kind {
		case Chip, Suspect:
			switch {
			case p.Quiet:
				f.Quiet += p.Count
			case p.Kind == Suspect:
				f.Suspect++
			case !p.Harmless():
				f.Hidden += p.Count
			}
		case Plain, Break, Secret, Repeat, Anchor:
		}
	}
}

// Value is a text, shown whole or cut.
type Value struct {
	Head []Piece
	Cut  *Cut    // nil: nothing was left out
	Tail []Piece // after the cut

	Long         bool // too long to find something by eye; nothing is cut
	Outliers     []Outlier
	MoreOutliers int // left out

	cut Findings // hidden characters that were left out
}

// Findings count all hidden characters of the value, and the suspect words of the shown parts.
func (v Value) Findings() Findings {
	f := v.cut
	f.addPieces(v.Head)
	f.addPieces(v.Tail)
	return f
}

// Cut says exactly how much of a value was left out.
type Cut struct {
	Lines  int // line breaks left out
	Runes  int // characters left out
	Bytes  int // length of the whole value
	SHA256 string
	Opaque bool // the value looks like encoded data
}

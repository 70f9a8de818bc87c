package hostile

import (
	"fmt"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/internal/secretfield"
)

// Redact returns the document with a description in place of each secret. It hides nothing after the first syntax error of a document.
// Pages and texts count hidden values and show their fingerprints.
func Redact(document []byte, secrets *secretfield.Rules) []byte {
	return secrets.Replace(document, func(f secretfield.Field) string { return makeSecretPiece(f, document).String() })
}

// String returns the piece as plain text.
func (p Piece) String() string {
	if p.Kind != Secret {
		return p.Text
	}
	word := "characters"
	if p.Count == 1 {
		word = "character"
	}
	return fmt.Sprintf("hidden (%d %s, fingerprint %s…)", p.Count, word, p.Text)
}

// makeSecretPiece returns the piece that replaces a secret.
func makeSecretPiece(f secretfield.Field, document []byte) Piece {
	text := f.Text(document)
	return Piece{Kind: Secret, Text: Fingerprint(text), Note: describeSecret(f.Marked), Count: utf8.RuneCountInString(text)}
}

// secretsByEnd returns the secrets among at most so many values of a document, by the position of their end.
func secretsByEnd(secrets *secretfield.Rules, document []byte, most int) map[int64]secretfield.Field {
	found := secrets.FindAmong(document, most)
	if len(found) == 0 {
		return nil
	}
	ends := make(map[int64]secretfield.Field, len(found))
	for _, one := range found {
		ends[int64(one.To)] = one
	}
	return ends
}

// ShowDocument shows a document as it is written, within limits and without its secrets.
func ShowDocument(document []byte, l Limits) Value {
	text, found := string(document), l.Secrets.Find(document)
	v := Fold(text, l)
	if len(found) == 0 {
		return v
	}
	head, tail, _ := splitHeadTail(text, l)
	v.Head = showPart(document, 0, head, found)
	if tail < len(text) {
		v.Tail = showPart(document, tail, len(text), found)
	}
	return v
}

// showPart shows a part of a document. A secret that is partly in it becomes a piece.
func showPart(document []byte, from, to int, found []secretfield.Field) []Piece {
	var pieces []Piece
	for _, one := range found {
		if one.To <= from || one.From >= to {
			continue
		}
		if one.From > from {
			pieces = append(pieces, Show(string(document[from:one.From]))...)
		}
		pieces = append(pieces, makeSecretPiece(one, document))
		from = one.To
	}
	if from < to {
		pieces = append(pieces, Show(string(document[from:to]))...)
	}
	return pieces
}

package typed

// Class says how a part of a text is emphasized.
type Class uint8

// The classes of spans.
const (
	ClassPlain    Class = iota
	ClassStrong         // the part that decides: a registrable domain, the last name of a path
	ClassUserinfo       // the text before @ of a URL
	ClassKeyword
	ClassString
	ClassComment
	ClassNumber
	ClassOperator
	ClassName // of a member or variable
	ClassTag
	ClassAdded
	ClassRemoved
	ClassHeader // of a diff's file or hunk
)

// Span is a part of a text.
type Span struct {
	Class Class
	Text  string
}

// joinSpans merges neighbors of one class, and adds the rest of the text as a plain span.
func joinSpans(text string, spans []Span) []Span {
	joined, at := spans[:0], 0
	for _, s := range spans {
		if s.Text == "" {
			continue
		}
		if n := len(joined); n > 0 && joined[n-1].Class == s.Class {
			joined[n-1].Text = text[at-len(joined[n-1].Text) : at+len(s.Text)]
		} else {
			joined = append(joined, s)
		}
		at += len(s.Text)
	}
	if at == len(text) {
		return joined
	}
	if n := len(joined); n > 0 && joined[n-1].Class == ClassPlain {
		joined[n-1].Text = text[at-len(joined[n-1].Text):]
		return joined
	}
	return append(joined, Span{ClassPlain, text[at:]})
}

// token is a part of a statement or command.
type token struct {
	class Class
	text  string
	line  bool // a line break is before it
	space bool // white space is before it
}

// tokenReader splits a text into tokens.
type tokenReader struct {
	text   string
	at     int
	tokens []token // without white space
	spans  []Span
}

// addToken makes a token of the text up to end.
func (r *tokenReader) addToken(class Class, end int) {
	t := token{class: class, text: r.text[r.at:end]}
	if n := len(r.spans); n > 0 {
		before := r.text[:r.at]
		for i := len(before) - 1; i >= 0 && isSpace(before[i]); i-- {
			t.space = true
			t.line = t.line || before[i] == '\n'
		}
	}
	r.tokens = append(r.tokens, t)
	r.addSpan(class, end)
}

// addSpan adds the text up to end to the spans.
func (r *tokenReader) addSpan(class Class, end int) {
	if n := len(r.spans); n > 0 && r.spans[n-1].Class == class {
		r.spans[n-1].Text = r.text[r.at-len(r.spans[n-1].Text) : end]
	} else {
		r.spans = append(r.spans, Span{class, r.text[r.at:end]})
	}
	r.at = end
}

// skipSpace passes white space, and reports whether there was any.
func (r *tokenReader) skipSpace() bool {
	end := r.at
	for end < len(r.text) && isSpace(r.text[end]) {
		end++
	}
	if end == r.at {
		return false
	}
	r.addSpan(ClassPlain, end)
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// endOfWord returns the end of the run of bytes that satisfy in.
func (r *tokenReader) endOfWord(in func(c byte) bool) int {
	end := r.at
	for end < len(r.text) && in(r.text[end]) {
		end++
	}
	return end
}

// endOfQuoted returns the end of a text in quotes that begins here. escape is the byte that escapes the quote, or zero.
func (r *tokenReader) endOfQuoted(quote, escape byte) int {
	for i := r.at + 1; i < len(r.text); i++ {
		switch {
		case escape != 0 && r.text[i] == escape:
			i++
		case r.text[i] == quote:
			return i + 1
		}
	}
	return len(r.text)
}

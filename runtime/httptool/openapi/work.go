package openapi

import (
	"context"
	"errors"
	"regexp/syntax"
)

// The work that reading a document may take: about one for each visit to a value and each byte of a pattern. The document of the API of
// GitHub, 12 MiB, takes a fifth.
const (
	maxWork       = 100_000_000
	checkInterval = 10_000 // work between two checks of the context
)

// errTooComplex refuses a document as a whole.
var errTooComplex = errors.New("too_complex: its references and schemas take too much work to read: choose a smaller document")

// work limits the reading of one document. It stops it by a panic, which [catchStop] turns into an error.
type work struct {
	ctx      context.Context //nolint:containedctx // of reading the document
	left     int
	next     int             // work until the next check of the context
	patterns map[string]bool // by text, whether RE2 reads it
}

type stopped struct{ err error }

// spend counts work, and stops the reading if there was too much or its context is done.
func (w *work) spend(steps int) {
	if w.left -= steps; w.left < 0 {
		panic(stopped{errTooComplex})
	}
	if w.next -= steps; w.next > 0 {
		return
	}
	w.next = checkInterval
	if err := w.ctx.Err(); err != nil {
		panic(stopped{err})
	}
}

// catchStop turns the panic of [work] into an error. It must be deferred.
func catchStop(err *error) {
	switch cause := recover().(type) {
	case nil:
	case stopped:
		*err = cause.err
	default:
		panic(cause)
	}
}

// isPattern reports whether the validator can read a regular expression. Documents write ECMA-262; the validator reads RE2.
// An expression that the validator refuses for its size is a pattern, too.
func (w *work) isPattern(text string) bool {
	known, ok := w.patterns[text]
	if !ok {
		w.spend(1 + len(text))
		_, err := syntax.Parse(text, syntax.Perl)
		known = err == nil
		w.patterns[text] = known
	}
	return known
}

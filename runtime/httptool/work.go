package httptool

import (
	"context"
	"errors"
	"regexp/syntax"
)

// Reading a document may take this much work: about its values, each as often as it is looked at, and the bytes of its
// patterns. The description of the API of GitHub, 12 MiB, takes a fifth of it.
const (
	maxWork    = 100_000_000
	workByLook = 10_000 // between two looks at the context
)

// errTooComplex refuses a document as a whole.
var errTooComplex = errors.New("too_complex: its references and schemas take too much work to read: choose a smaller document")

// work ends the reading of one document, by a panic that [catchStop] makes an error of.
type work struct {
	ctx      context.Context //nolint:containedctx // of reading the document
	left     int
	look     int             // work until the context is looked at again
	patterns map[string]bool // those that were read, and whether they are patterns
}

type stopped struct{ err error }

func newWork(ctx context.Context) *work {
	return &work{ctx: ctx, left: maxWork, patterns: map[string]bool{}}
}

func (w *work) spend(steps int) {
	if w.left -= steps; w.left < 0 {
		panic(stopped{errTooComplex})
	}
	if w.look -= steps; w.look > 0 {
		return
	}
	w.look = workByLook
	if err := w.ctx.Err(); err != nil {
		panic(stopped{err})
	}
}

// catchStop is deferred.
func catchStop(err *error) {
	switch cause := recover().(type) {
	case nil:
	case stopped:
		*err = cause.err
	default:
		panic(cause)
	}
}

// isPattern reports whether the validator reads a text as a regular expression. Most are for ECMA-262; it takes what RE2
// does. Those that it refuses for their size are patterns.
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

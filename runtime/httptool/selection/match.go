package selection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// replacementSource replaces functions of the library. The library matches a whole text in one step that no deadline ends, so the functions
// on regular expressions call [matching.matchText], which checks the deadline while it reads. The other functions collect
// results, and are written here so that guards apply to their lists.
const replacementSource = `
def map(f): [.[] | f];
def add(f): [f] | add;
def sort_by(f): map([f]) as $by | _sort_by($by);
def group_by(f): map([f]) as $by | _group_by($by);
def unique_by(f): map([f]) as $by | _unique_by($by);
def min_by(f): map([f]) as $by | _min_by($by);
def max_by(f): map([f]) as $by | _max_by($by);

def _holdpoint_pattern: if type == "array" then [.[0], .[1]] else [., null] end;
def _holdpoint_named: [.captures[] | select(.name != null) | {(.name): .string}] | add // {};
def match($re; $flags): _holdpoint_match($re; $flags; false)[];
def match($re): ($re | _holdpoint_pattern) as [$pattern, $flags] | match($pattern; $flags);
def test($re; $flags): _holdpoint_match($re; $flags; true);
def test($re): ($re | _holdpoint_pattern) as [$pattern, $flags] | test($pattern; $flags);
def capture($re; $flags): match($re; $flags) | _holdpoint_named;
def capture($re): match($re) | _holdpoint_named;
def scan($re; $flags): match($re; $flags + "g") | [.captures[].string] as $parts | if $parts == [] then .string else $parts end;
def scan($re): scan($re; null);
def splits($re; $flags): . as $text | [match($re; $flags + "g") | [.offset, .offset + .length]] as $cuts | ($cuts | length) as $n
  | range(0; $n + 1) as $i | $text[(if $i == 0 then 0 else $cuts[$i - 1][1] end):(if $i == $n then null else $cuts[$i][0] end)];
def splits($re): splits($re; null);
def split($re; $flags): [splits($re; $flags)];
def sub($re; str; $flags): . as $text | reduce match($re; $flags) as $found ({from: 0, made: []};
    $text[.from:$found.offset] as $between | [$found | _holdpoint_named | str] as $with
    | reduce range(0; $with | length) as $i (.; .made[$i] += $between + $with[$i]) | .from = $found.offset + $found.length)
  | .from as $from | if .made == [] then $text else .made[] + $text[$from:] end;
def sub($re; str): sub($re; str; null);
def gsub($re; str; $flags): sub($re; str; $flags + "g");
def gsub($re; str): sub($re; str; "g");
.`

const (
	functionMatch = "_holdpoint_match"

	maxPattern    = 8 << 10 // bytes of a regular expression
	maxGroups     = 100
	maxMatchers   = 100     // compiled expressions that are kept
	checkInterval = 1 << 20 // instructions times characters between two checks of the deadline
)

// matching holds the regular expressions of one program.
type matching struct {
	ctx    context.Context //nolint:containedctx // of the run; the library passes none to functions
	budget *budget
	known  map[[2]string]*matcher
}

// matcher is a compiled regular expression with its flags.
type matcher struct {
	whole *regexp.Regexp // finds the first match
	later *regexp.Regexp // finds a later match: skips one character, which assertions look back at, and any others
	size  int
}

func (m *matching) compilerOption() gojq.CompilerOption {
	return gojq.WithFunction(functionMatch, 3, 3, func(text any, args []any) any {
		found, err := m.matchText(text, args[0], args[1], args[2] == true)
		if err != nil {
			return err
		}
		return found
	})
}

// matchText returns all matches as jq describes them. With testing it reports whether there is a match.
func (m *matching) matchText(value, pattern, flags any, testing bool) (any, error) {
	text, isText := value.(string)
	re, isPattern := pattern.(string)
	letters, areLetters := flags.(string)
	if !isText || !isPattern || !areLetters && flags != nil {
		return nil, errors.New("a regular expression, and its flags, are texts, and look for matches in a text")
	}
	all := strings.Contains(letters, "g") && !testing
	if all && len(text) > maxMatched {
		return nil, fmt.Errorf("regular expressions are for texts of at most %d bytes", maxMatched)
	}
	compiled, err := m.compilePattern(re, letters)
	if err != nil {
		return nil, err
	}
	matches := []any{}
	for at, runes := 0, 0; ; {
		found := m.findMatch(compiled, text, at)
		switch {
		case m.ctx.Err() != nil:
			return nil, m.ctx.Err()
		case testing:
			return found != nil, nil
		case found == nil:
			return matches, nil
		}
		if m.budget.left.Add(-int64(len(found))*valueSize*4) < 0 {
			return nil, errHandled
		}
		runes += utf8.RuneCountInString(text[at:found[0]])
		matches = append(matches, describeMatch(compiled.whole.SubexpNames(), text, found, runes))
		if !all || found[1] == len(text) && found[0] == found[1] {
			return matches, nil
		}
		runes += utf8.RuneCountInString(text[found[0]:found[1]])
		if at = found[1]; found[0] == found[1] {
			_, width := utf8.DecodeRuneInString(text[at:])
			at, runes = at+width, runes+1
		}
	}
}

// findMatch returns the position of the first match at or after at. Nil: there is none, or the context of the run is done.
func (m *matching) findMatch(re *matcher, text string, at int) []int {
	if at == 0 {
		return re.whole.FindReaderSubmatchIndex(m.newReader(re, text))
	}
	_, width := utf8.DecodeLastRuneInString(text[:at])
	found := re.later.FindReaderSubmatchIndex(m.newReader(re, text[at-width:]))
	if found == nil {
		return nil
	}
	found = found[2:] // the first group is the match
	for i := range found {
		if found[i] >= 0 {
			found[i] += at - width
		}
	}
	return found
}

// describeMatch returns the object by which jq describes a match. runes is the offset of the match in characters.
func describeMatch(names []string, text string, found []int, runes int) map[string]any {
	captures := make([]any, len(found)/2-1)
	for i := range captures {
		var name any
		if names[i+1] != "" {
			name = names[i+1]
		}
		from, to := found[2*i+2], found[2*i+3]
		if from < 0 {
			captures[i] = map[string]any{"name": name, "offset": -1, "length": 0, "string": nil}
			continue
		}
		captures[i] = map[string]any{
			"name": name, "offset": runes + utf8.RuneCountInString(text[found[0]:from]),
			"length": utf8.RuneCountInString(text[from:to]), "string": text[from:to],
		}
	}
	return map[string]any{
		"offset": runes, "length": utf8.RuneCountInString(text[found[0]:found[1]]), "string": text[found[0]:found[1]], "captures": captures,
	}
}

func (m *matching) compilePattern(re, flags string) (*matcher, error) {
	key := [2]string{re, flags}
	if known := m.known[key]; known != nil {
		return known, nil
	}
	if strings.Trim(flags, "gim") != "" {
		return nil, errors.New("the flags of regular expressions are g, i and m")
	}
	if len(re) > maxPattern {
		return nil, fmt.Errorf("a regular expression is at most %d bytes long", maxPattern)
	}
	if strings.Contains(flags, "i") {
		re = "(?i)" + re
	}
	if strings.Contains(flags, "m") {
		re = "(?s)" + re
	}
	parsed, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is no regular expression: %w", err)
	}
	size := tool.PatternSize(parsed)
	if size > tool.MaxPatternSize || parsed.MaxCap() > maxGroups {
		return nil, fmt.Errorf("a regular expression has at most %d steps and %d groups", tool.MaxPatternSize, maxGroups)
	}
	compiled := &matcher{size: size}
	if compiled.whole, err = regexp.Compile(re); err != nil {
		return nil, err
	}
	if compiled.later, err = regexp.Compile(`\A(?s:.)(?s:.*?)((?:` + re + `))`); err != nil {
		return nil, err
	}
	if len(m.known) >= maxMatchers {
		clear(m.known)
	}
	m.known[key] = compiled
	return compiled, nil
}

func (m *matching) newReader(re *matcher, text string) io.RuneReader {
	return &contextReader{Reader: *strings.NewReader(text), ctx: m.ctx, size: re.size}
}

// contextReader reads a text, which ends early when the context is done.
type contextReader struct {
	strings.Reader
	ctx  context.Context //nolint:containedctx // ReadRune takes none
	size int
	left int
}

// ReadRune implements [io.RuneReader].
func (t *contextReader) ReadRune() (r rune, size int, err error) {
	if t.left -= t.size; t.left < 0 {
		if t.ctx.Err() != nil {
			return 0, 0, io.EOF
		}
		t.left = checkInterval
	}
	return t.Reader.ReadRune()
}

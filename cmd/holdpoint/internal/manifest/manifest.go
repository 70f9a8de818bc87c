// Package manifest parses holdpoint.yaml for apply, and the files of identity providers and authorization servers. It reports
// all errors with their lines, and replaces references to variables and files of this machine by their values. The result is
// JSON for the API or the server.
package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

//go:generate go test -run ^(TestReference|TestSchemaFile)$ . -update

// Options are the sources of values outside the file.
type Options struct {
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error) // nil: os.ReadFile
	// Run runs a program in a folder and returns its output. Nil: the file must not name one.
	Run func(folder string, command []string) ([]byte, error)
	// Label and Prune are those of the spec.
	Label string
	Prune bool
}

// File is the text of a file. The name is shown in errors, and relative paths start from its folder.
type File struct {
	Name string
	Text []byte
}

// Manifest has the declarations of one or more files.
type Manifest struct {
	// Spec is the files as JSON. For holdpoint.yaml it is the spec of the API's apply. It lacks the values that have an error.
	Spec json.RawMessage
	// Torn says that a part of a file is no YAML, so that the spec lacks what that part declares.
	Torn bool

	name    string // of the first file
	places  map[string]spot
	missing map[string]bool // paths of values that have an error
}

// Place is a position in a file.
type Place struct{ Line, Column int }

// spot is a position in one of several files.
type spot struct {
	file string
	Place
}

// Error is an error at a position.
type Error struct {
	File    string
	Place   Place // zero: the file as a whole
	Path    string
	Message string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Place.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Place.Line, e.Place.Column)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors are all errors of a file, in the order of their positions.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Parse parses the text of holdpoint.yaml. The error is Errors.
func Parse(name string, text []byte, options Options) (*Manifest, error) {
	m, wrong := ParseFiles([]File{{name, text}}, options)
	if len(wrong) > 0 {
		return nil, wrong
	}
	return m, nil
}

// ParseFiles parses files like holdpoint.yaml as if they were one: their lists are joined, and a name may be declared once. With errors, it
// also returns what is right, so that the server can find the other errors.
func ParseFiles(files []File, options Options) (*Manifest, Errors) {
	w := newWalker(options)
	w.takesStored = true
	order := map[string]int{}
	joined := map[string]any{}
	for i, file := range files {
		order[file.Name] = i
		values, _ := w.walkFile(file, topShape()).(map[string]any)
		for name, value := range values {
			items, _ := value.([]any)
			before, _ := joined[name].([]any)
			joined[name] = append(before, items...)
			w.offsets[name] += len(items)
		}
	}
	w.checkNames(joined)
	if len(w.stored) > 0 {
		joined["stored"] = w.stored
	}
	if options.Label != "" {
		joined["label"], joined["prune"] = options.Label, options.Prune
	}
	slices.SortStableFunc(w.errors, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), a.Place.compare(b.Place))
	})
	spec, err := json.Marshal(joined)
	if err != nil {
		return nil, append(w.errors, &Error{File: files[0].Name, Message: err.Error()})
	}
	return &Manifest{Spec: spec, Torn: w.torn, name: files[0].Name, places: w.places, missing: w.missing}, w.errors
}

// checkNames refuses a name that is declared twice.
func (w *walker) checkNames(joined map[string]any) {
	for _, list := range slices.Sorted(maps.Keys(joined)) {
		items, _ := joined[list].([]any)
		seen := map[string]spot{}
		for i, item := range items {
			fields, _ := item.(map[string]any)
			name, isText := fields["name"].(string)
			if !isText || name == "" {
				continue
			}
			path := fmt.Sprintf("%s[%d].name", list, i)
			here := w.places[path]
			if first, twice := seen[name]; twice {
				w.missing[path] = true
				w.errors = append(w.errors, &Error{File: here.file, Place: here.Place, Path: path, Message: fmt.Sprintf("must be a name of its own: %q is declared at %s:%d:%d too",
					name, first.file, first.Line, first.Column)})
				continue
			}
			seen[name] = here
		}
	}
}

func (p Place) compare(other Place) int {
	return cmp.Or(cmp.Compare(p.Line, other.Line), cmp.Compare(p.Column, other.Column))
}

// ParseProviders parses a list of identity providers in the same way.
func ParseProviders(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, listOf(identityProvider()))
}

// ParseTokenIssuers parses a list of authorization servers in the same way.
func ParseTokenIssuers(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, listOf(tokenIssuer()))
}

// ParseEndpoints parses a list of endpoints of an HTTP API in the same way.
func ParseEndpoints(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, listOf(endpointShape()))
}

// ParseRules parses the rules of holdpoint.yaml in the same way, and nothing else of it.
func ParseRules(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, rulesOnly())
}

// ParseRule parses one rule, as in the list of holdpoint.yaml.
func ParseRule(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, ruleShape())
}

// ParsePolicy parses one approval policy, as in the list of holdpoint.yaml.
func ParsePolicy(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, policyShape())
}

// ParseRuleTests parses a file with tests of rules.
func ParseRuleTests(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, ruleTestsShape())
}

// parseFile parses one file of another shape.
func parseFile(name string, text []byte, options Options, s shape) (*Manifest, error) {
	w := newWalker(options)
	value := w.walkFile(File{name, text}, s)
	if len(w.errors) > 0 {
		slices.SortStableFunc(w.errors, func(a, b *Error) int { return a.Place.compare(b.Place) })
		return nil, w.errors
	}
	spec, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return &Manifest{Spec: spec, name: name, places: w.places}, nil
}

// ParseYAML parses a file of any shape.
func ParseYAML(name string, text []byte) (*ast.File, *Error) {
	file, err := parser.ParseBytes(text, 0)
	var located yaml.Error
	switch {
	case errors.As(err, &located) && located.GetToken() != nil:
		at := located.GetToken().Position
		return nil, &Error{File: name, Place: Place{at.Line, at.Column}, Message: located.GetMessage()}
	case err != nil:
		return nil, &Error{File: name, Message: err.Error()}
	}
	return file, nil
}

// parseBody returns the one document of a file.
func parseBody(name string, text []byte) (ast.Node, *Error) {
	file, err := ParseYAML(name, text)
	if err != nil {
		return nil, err
	}
	var found ast.Node
	for _, document := range file.Docs {
		switch {
		case document.Body == nil:
		case found != nil:
			return nil, &Error{File: name, Place: PlaceOf(document.Body), Message: "the file must be one document, not several"}
		default:
			found = document.Body
		}
	}
	if found == nil {
		return nil, &Error{File: name, Message: "the file is empty"}
	}
	return found, nil
}

// parseParts parses a file, and reports all of its parts that are no YAML: after an error, the entry that has it is left out.
func parseParts(name string, text []byte) (ast.Node, Errors) {
	const maxParts = 100
	lines := strings.SplitAfter(string(text), "\n")
	body, err := parseBody(name, text)
	var wrong Errors
	for range maxParts {
		if err == nil {
			return body, wrong
		}
		wrong = append(wrong, err)
		if err.Place.Line < 1 || err.Place.Line > len(lines) {
			break
		}
		if lines, body, err = skipEntry(name, lines, err); isEmpty(lines) {
			break
		}
	}
	return nil, wrong
}

// skipEntry leaves out the entry with an error, or the one before if that lacks a bracket. It returns the other lines, and what they are.
func skipEntry(name string, lines []string, wrong *Error) ([]string, ast.Node, *Error) {
	parse := func(lines []string) (ast.Node, *Error) { return parseBody(name, []byte(strings.Join(lines, ""))) }
	left, first := clearEntry(lines, wrong.Place.Line-1)
	if strings.Contains(wrong.Message, "must be specified") && first > 0 {
		before, _ := clearEntry(lines, first-1)
		if body, err := parse(before); err == nil || *err != *wrong {
			return before, body, err
		}
	}
	body, err := parse(left)
	return left, body, err
}

func isEmpty(lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool {
		text := strings.TrimSpace(line)
		return text != "" && !strings.HasPrefix(text, "#")
	})
}

// clearEntry empties the lines of the smallest entry of a list, or else the section, that has a line. It returns the number of its first line.
func clearEntry(lines []string, at int) (left []string, first int) {
	indentOf := func(i int) int { return len(lines[i]) - len(strings.TrimLeft(lines[i], " ")) }
	for first = at; first > 0; first-- {
		isEntry := strings.HasPrefix(strings.TrimSpace(lines[first]), "- ") && indentOf(first) <= indentOf(at)
		if isEntry || !isEmpty(lines[first:first+1]) && indentOf(first) == 0 {
			break
		}
	}
	left = slices.Clone(lines)
	for i := first; i < len(lines) && (i <= at || isEmpty(lines[i:i+1]) || indentOf(i) > indentOf(first)); i++ {
		left[i] = "\n"
	}
	return left, first
}

// Locate finds the position in the files of a server's error about a path such as skills[1].url. A missing field is located at
// its parent.
func (m *Manifest) Locate(path, message string) *Error {
	located := &Error{File: m.name, Path: path, Message: message}
	for at := path; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if found, ok := m.places[at]; ok {
			located.File, located.Place = found.file, found.Place
			return located
		}
	}
	return located
}

// Explains reports whether the server's error about a path only follows from an error that was found in the files.
func (m *Manifest) Explains(path string) bool {
	isBelow := func(path, of string) bool {
		rest, ok := strings.CutPrefix(path, of)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for missing := range m.missing {
		if isBelow(path, missing) || isBelow(missing, path) {
			return true
		}
	}
	return false
}

// Merge adds the server's errors to those of the files, in the order of their places. Those of a file as a whole come first.
func (e Errors) Merge(more Errors) Errors {
	order := map[string]int{}
	all := append(slices.Clone(e), more...)
	for _, one := range all {
		if _, known := order[one.File]; !known {
			order[one.File] = len(order)
		}
	}
	slices.SortStableFunc(all, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), a.Place.compare(b.Place))
	})
	return all
}

// PlaceOf returns the position of a node.
func PlaceOf(node ast.Node) Place {
	mapping, isMapping := node.(*ast.MappingNode)
	if pairs := PairsOf(node); len(pairs) > 0 && (!isMapping || !mapping.IsFlowStyle) {
		return PlaceOf(pairs[0].Key)
	}
	token := node.GetToken()
	if token == nil || token.Position == nil {
		return Place{}
	}
	return Place{token.Position.Line, token.Position.Column}
}

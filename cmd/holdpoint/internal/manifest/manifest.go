// Package manifest parses holdpoint.yaml for apply, and the files of identity providers and authorization servers. It reports
// all errors with their lines, and replaces references to variables and files of this machine by their values. The result is
// JSON for the API or the server.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Options are the sources of values outside the file.
type Options struct {
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error) // nil: os.ReadFile
}

// Manifest is a parsed file.
type Manifest struct {
	// Spec is the file as JSON. For holdpoint.yaml it is the spec of the API's apply.
	Spec json.RawMessage

	name   string
	places map[string]Place
}

// Place is a position in the file.
type Place struct{ Line, Column int }

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

// Parse parses the text of holdpoint.yaml. The name is shown in errors, and relative paths start from its directory. The error is
// Errors.
func Parse(name string, text []byte, options Options) (*Manifest, error) {
	return parseFile(name, text, options, topShape())
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

func parseFile(name string, text []byte, options Options, s shape) (*Manifest, error) {
	if options.ReadFile == nil {
		options.ReadFile = os.ReadFile
	}
	body, err := parseBody(name, text)
	if err != nil {
		return nil, Errors{err}
	}
	w := &walker{
		Options: options, file: name, dir: filepath.Dir(name),
		places: map[string]Place{}, anchors: map[string]ast.Node{},
	}
	value := w.walkValue(body, s, "", 0)
	if len(w.errors) > 0 {
		slices.SortStableFunc(w.errors, func(a, b *Error) int {
			if a.Place.Line != b.Place.Line {
				return a.Place.Line - b.Place.Line
			}
			return a.Place.Column - b.Place.Column
		})
		return nil, w.errors
	}
	spec, encodeErr := json.Marshal(value)
	if encodeErr != nil {
		return nil, fmt.Errorf("encode %s: %w", name, encodeErr)
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

// Locate finds the position in the file of a server's error about a path such as skills[1].url. A missing field is located at
// its parent.
func (m *Manifest) Locate(path, message string) *Error {
	located := &Error{File: m.name, Path: path, Message: message}
	for at := path; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if found, ok := m.places[at]; ok {
			located.Place = found
			return located
		}
	}
	return located
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

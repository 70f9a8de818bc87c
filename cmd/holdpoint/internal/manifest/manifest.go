// Package manifest reads holdpoint.yaml as apply does, and the files of identity providers and authorization servers: strictly, with the line of
// everything that is wrong, and with the values that stand in variables and files of
// this machine put in their places. What comes out is what the API, or the server, takes.
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

// Options say where values outside the file come from.
type Options struct {
	Getenv   func(string) string
	ReadFile func(string) ([]byte, error) // nil: os.ReadFile
}

// Manifest is a file that was read.
type Manifest struct {
	// Spec is what the file says, as JSON: of holdpoint.yaml the body that the API's apply takes as spec.
	Spec json.RawMessage

	name   string
	places map[string]Place
}

// Place is a position in the file.
type Place struct{ Line, Column int }

// Error is one thing that is wrong, and where.
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

// Errors is everything that is wrong with a file, in its order.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Parse reads the text of a file. The name is for errors, and names the
// directory that relative paths in it start from. The error is Errors.
func Parse(name string, text []byte, options Options) (*Manifest, error) {
	return parse(name, text, options, top())
}

// ParseProviders reads a file of identity providers likewise: a list.
func ParseProviders(name string, text []byte, options Options) (*Manifest, error) {
	return parse(name, text, options, listOf(identityProvider()))
}

// ParseTokenIssuers reads a file of authorization servers likewise: a list.
func ParseTokenIssuers(name string, text []byte, options Options) (*Manifest, error) {
	return parse(name, text, options, listOf(tokenIssuer()))
}

// ParseEndpoints reads a file of endpoints of an HTTP API likewise: a list.
func ParseEndpoints(name string, text []byte, options Options) (*Manifest, error) {
	return parse(name, text, options, listOf(endpoint()))
}

func parse(name string, text []byte, options Options, s shape) (*Manifest, error) {
	if options.ReadFile == nil {
		options.ReadFile = os.ReadFile
	}
	body, err := body(name, text)
	if err != nil {
		return nil, Errors{err}
	}
	w := &walker{
		Options: options, file: name, dir: filepath.Dir(name),
		places: map[string]Place{}, anchors: map[string]ast.Node{},
	}
	value := w.value(body, s, "", 0)
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

// body returns the one document of a file.
func body(name string, text []byte) (ast.Node, *Error) {
	file, err := parser.ParseBytes(text, 0)
	var located yaml.Error
	switch {
	case errors.As(err, &located) && located.GetToken() != nil:
		at := located.GetToken().Position
		return nil, &Error{File: name, Place: Place{at.Line, at.Column}, Message: located.GetMessage()}
	case err != nil:
		return nil, &Error{File: name, Message: err.Error()}
	}
	var found ast.Node
	for _, document := range file.Docs {
		switch {
		case document.Body == nil:
		case found != nil:
			return nil, &Error{File: name, Place: place(document.Body), Message: "want one document, not several"}
		default:
			found = document.Body
		}
	}
	if found == nil {
		return nil, &Error{File: name, Message: "the file is empty"}
	}
	return found, nil
}

// Locate turns a complaint of the server about a path (skills[1].url) into one about the
// file. What is not in the file itself is located at what it would be in.
func (m *Manifest) Locate(path, message string) *Error {
	located := &Error{File: m.name, Path: path, Message: message}
	for at := path; at != ""; at = parent(at) {
		if found, ok := m.places[at]; ok {
			located.Place = found
			return located
		}
	}
	return located
}

func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// place is where a node begins.
func place(node ast.Node) Place {
	if pairs := pairsOf(node); len(pairs) > 0 && !flow(node) {
		return place(pairs[0].Key)
	}
	token := node.GetToken()
	if token == nil || token.Position == nil {
		return Place{}
	}
	return Place{token.Position.Line, token.Position.Column}
}

func flow(node ast.Node) bool {
	mapping, ok := node.(*ast.MappingNode)
	return ok && mapping.IsFlowStyle
}

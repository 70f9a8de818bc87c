package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// walker turns nodes into values, notes their positions, and collects errors.
type walker struct {
	Options

	file    string
	dir     string
	torn    bool           // a part of a file is no YAML
	offsets map[string]int // how many elements earlier files have in a list of the top
	places  map[string]spot
	missing map[string]bool // paths of values that have an error
	anchors map[string]ast.Node
	values  int
	errors  Errors

	takesStored bool
	stored      []string // paths of secrets that the server has
}

func newWalker(options Options) *walker {
	if options.ReadFile == nil {
		options.ReadFile = os.ReadFile
	}
	return &walker{Options: options, offsets: map[string]int{}, places: map[string]spot{}, missing: map[string]bool{}}
}

// walkFile reads a file that should have a shape.
func (w *walker) walkFile(file File, s shape) any {
	body, wrong := parseParts(file.Name, file.Text)
	w.torn = w.torn || len(wrong) > 0
	w.errors = append(w.errors, wrong...)
	if body == nil {
		return nil
	}
	w.file, w.dir, w.anchors, w.values = file.Name, filepath.Dir(file.Name), map[string]ast.Node{}, 0
	return w.walkValue(body, s, "", 0)
}

// absent stands for a member that is not in the result.
type absent struct{}

// Limits of a file after its aliases are replaced.
const (
	maxDepth  = 50
	maxValues = 200_000
)

func (w *walker) failf(node ast.Node, path, format string, args ...any) {
	w.errors = append(w.errors, &Error{File: w.file, Place: PlaceOf(node), Path: path, Message: fmt.Sprintf(format, args...)})
}

// walkValue reads a node that should have a shape.
func (w *walker) walkValue(node ast.Node, s shape, path string, depth int) any {
	if w.values++; depth > maxDepth || w.values > maxValues {
		if depth > maxDepth || w.values == maxValues+1 {
			w.failf(node, path, "too deep or too much")
		}
		return nil
	}
	if _, ok := w.places[path]; !ok {
		w.places[path] = spot{w.file, PlaceOf(node)}
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		w.anchors[n.Name.GetToken().Value] = n.Value
		return w.walkValue(n.Value, s, path, depth+1)
	case *ast.AliasNode:
		target, ok := w.anchors[n.Value.GetToken().Value]
		if !ok {
			w.failf(node, path, "unknown alias *%s", n.Value.GetToken().Value)
			return nil
		}
		return w.walkValue(target, s, path, depth+1)
	case *ast.TagNode:
		return w.walkValue(n.Value, s, path, depth+1)
	}
	switch s.kind {
	case list:
		return w.walkList(node, s, path, depth)
	case dictionary, object:
		return w.walkMapping(node, s, path, depth)
	case boolean:
		if n, ok := node.(*ast.BoolNode); ok {
			return n.Value
		}
		w.failf(node, path, "must be true or false")
		return nil
	case number:
		return w.walkNumber(node, path)
	case decimal:
		return w.walkDecimal(node, path)
	case duration:
		return w.walkDuration(node, path)
	case free:
		return w.walkFree(node, path, depth)
	default:
		return w.walkWord(node, s, path)
	}
}

// scalarText returns a scalar as it is written: 8080 and true are text, too.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}

func (w *walker) walkWord(node ast.Node, s shape, path string) any {
	if found, ok := scalarText(node); ok {
		return found
	}
	if pairs := PairsOf(node); s.secret && len(pairs) == 1 {
		switch key := KeyText(pairs[0]); key {
		case "env", "file", "exec":
			return w.readOutside(pairs[0].Value, key, path+"."+key)
		case "stored":
			if w.takesStored {
				return w.noteStored(pairs[0].Value, path)
			}
		}
	}
	switch {
	case s.secret && w.takesStored:
		w.failf(node, path, "must be a value, {env: VARIABLE}, {file: PATH}, {exec: [PROGRAM, ARGUMENT, …]} or {stored: true}")
	case s.secret:
		w.failf(node, path, "must be a value, {env: VARIABLE} or {file: PATH}")
	case node.Type() == ast.NullType:
		w.failf(node, path, "must be a value")
	default:
		w.failf(node, path, "must be a single value")
	}
	return nil
}

// noteStored notes that a secret stays as the server has it.
func (w *walker) noteStored(node ast.Node, path string) any {
	if n, ok := node.(*ast.BoolNode); !ok || !n.Value {
		w.failf(node, path+".stored", "must be true: the server keeps the value that it has")
		return nil
	}
	w.stored = append(w.stored, path)
	return absent{}
}

func (w *walker) walkDuration(node ast.Node, path string) any {
	found, ok := scalarText(node)
	if _, err := time.ParseDuration(found); !ok || err != nil {
		w.failf(node, path, "must be a duration such as 90s, 5m or 1h30m")
		return nil
	}
	return found
}

func (w *walker) walkNumber(node ast.Node, path string) any {
	found, ok := scalarText(node)
	n, err := strconv.Atoi(found)
	if !ok || err != nil {
		w.failf(node, path, "must be a whole number")
		return nil
	}
	return n
}

func (w *walker) walkDecimal(node ast.Node, path string) any {
	found, ok := scalarText(node)
	x, err := strconv.ParseFloat(found, 64)
	if !ok || err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		w.failf(node, path, "must be a number such as 3 or 0.25")
		return nil
	}
	return x
}

// walkFree reads any value that JSON can represent, such as a JSON Schema.
func (w *walker) walkFree(node ast.Node, path string, depth int) any {
	switch n := node.(type) {
	case *ast.SequenceNode:
		return w.walkList(node, shape{kind: list, of: &shape{kind: free}}, path, depth)
	case *ast.MappingNode, *ast.MappingValueNode:
		return w.walkMapping(node, shape{kind: dictionary, of: &shape{kind: free}}, path, depth)
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return exactNumber(node, n.Value)
	case *ast.FloatNode:
		return exactNumber(node, n.Value)
	case *ast.StringNode: // the parser takes long numbers, and those with an exponent, for text
		if n.Token.Type == token.StringType && jsonNumber.MatchString(n.Value) {
			return json.RawMessage(n.Value)
		}
	}
	found, ok := scalarText(node)
	if _, quoted := node.(*ast.StringNode); !ok || !quoted && node.Type() != ast.LiteralType {
		w.failf(node, path, "must be a value that JSON can represent")
	}
	return found
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// exactNumber returns a number as it is written, if JSON writes it likewise: 50.0 stays 50.0, and no digit is lost.
func exactNumber(node ast.Node, value any) any {
	if text := node.GetToken().Value; json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return value
}

// readOutside reads a value from a variable, a file or the output of a program.
func (w *walker) readOutside(node ast.Node, from, path string) any {
	if from == "exec" {
		return w.runProgram(node, path)
	}
	name, ok := scalarText(node)
	if !ok || name == "" {
		w.failf(node, path, "must be the name of a variable, or of a file")
		return nil
	}
	if from == "env" {
		found := w.Getenv(name)
		if found == "" {
			w.failf(node, path, "the variable %s is not set on this machine", name)
			return nil
		}
		return found
	}
	content, err := w.readFile(name)
	switch {
	case err != nil:
		w.failf(node, path, "%v", err)
		return nil
	case !utf8.Valid(content):
		w.failf(node, path, "%s is not text", name)
		return nil
	}
	return strings.TrimRight(string(content), "\r\n")
}

// runProgram reads a value from the output of a program. A server runs none for its settings.
func (w *walker) runProgram(node ast.Node, path string) any {
	if w.Run == nil {
		w.failf(node, path, "must be env or file: only holdpoint apply and holdpoint diff run programs, on the machine where they are started")
		return nil
	}
	var command []string
	if text, isWord := scalarText(node); isWord {
		command = []string{text}
	} else if sequence, isList := node.(*ast.SequenceNode); isList {
		for _, value := range sequence.Values {
			text, isWord := scalarText(value)
			if !isWord {
				w.failf(value, path, "must be a single value")
				return nil
			}
			command = append(command, text)
		}
	}
	if len(command) == 0 || command[0] == "" {
		w.failf(node, path, "must be a program and its arguments: [PROGRAM, ARGUMENT, …]")
		return nil
	}
	output, err := w.Run(w.dir, command)
	value := strings.TrimRight(string(output), "\r\n")
	switch {
	case err != nil:
		w.failf(node, path, "%s: %v", command[0], err)
		return nil
	case value == "":
		w.failf(node, path, "%s printed nothing", command[0])
		return nil
	case !utf8.ValidString(value):
		w.failf(node, path, "the output of %s is not text", command[0])
		return nil
	}
	return value
}

// maxFile limits a file that is sent as a whole, in bytes.
const maxFile = 32 << 20

// readDocument returns the text of the file that a path names; false if it is a URL, or names no file.
func (w *walker) readDocument(node ast.Node, path string) (string, bool) {
	name, ok := scalarText(node)
	if !ok || name == "" || IsURL(name) {
		return "", false
	}
	content, err := w.readFile(name)
	switch {
	case err != nil:
		w.failf(node, path, "must be the URL of an OpenAPI document, or the path of a file: %v", err)
	case len(content) > maxFile:
		w.failf(node, path, "%s is longer than %d MiB", name, maxFile>>20)
	case !utf8.Valid(content):
		w.failf(node, path, "%s is not text", name)
	}
	return string(content), true
}

// IsURL reports whether a document is named by its URL, rather than by the path of a file.
func IsURL(text string) bool {
	scheme, _, _ := strings.Cut(text, "://")
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// readFile reads a file. A relative path starts from the folder of the manifest.
func (w *walker) readFile(name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.dir, name)
	}
	return w.ReadFile(name)
}

func (w *walker) walkList(node ast.Node, s shape, path string, depth int) any {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		w.failf(node, path, "must be a list")
		return nil
	}
	items, first := make([]any, len(sequence.Values)), w.offsets[path]
	for i, item := range sequence.Values {
		at := fmt.Sprintf("%s[%d]", path, first+i)
		if items[i] = w.walkValue(item, *s.of, at, depth+1); items[i] == nil && s.of.kind != free {
			items[i], w.missing[at] = s.of.zero(), true
		}
	}
	return items
}

// zero stands for an element that has an error, so that the others keep their numbers.
func (s *shape) zero() any {
	switch s.kind {
	case object, dictionary:
		return map[string]any{}
	case list:
		return []any{}
	default:
		return ""
	}
}

func (w *walker) walkMapping(node ast.Node, s shape, path string, depth int) any {
	if _, ok := scalarText(node); ok && s.short != "" {
		value := w.walkValue(node, s.fields[s.short], path, depth+1)
		if value == nil {
			return nil
		}
		return map[string]any{s.short: value}
	}
	pairs := PairsOf(node)
	if pairs == nil && node.Type() != ast.MappingType {
		w.failf(node, path, "must be a mapping")
		return nil
	}
	values := map[string]any{}
	for _, pair := range pairs {
		w.walkMember(values, pair, s, path, depth)
	}
	return values
}

// walkMember reads one member of a mapping into values.
func (w *walker) walkMember(values map[string]any, pair *ast.MappingValueNode, s shape, path string, depth int) {
	key := KeyText(pair)
	if pair.Key.Type() == ast.MergeKeyType {
		w.failf(pair.Key, path, "merge keys (<<) are not supported")
		return
	}
	name, of, from := key, s.of, ""
	if s.kind == object {
		var known bool
		if name, of, from, known = s.findField(key); !known {
			w.failf(pair.Key, path, "unknown key %q", key)
			return
		}
	}
	if of.ignore {
		return
	}
	if w.torn && path == "" && pair.Value.Type() == ast.NullType { // its entries are no YAML
		return
	}
	at, place := joinPath(path, name), spot{w.file, PlaceOf(pair.Key)}
	_, twice := values[name]
	if path != "" { // the lists of the top are joined, and a value that has an error is left out
		_, twice = w.places[at]
	}
	if twice {
		w.failf(pair.Key, path, "%q is given twice", name)
		return
	}
	w.places[at] = place
	if of.file != "" {
		if document, ok := w.readDocument(pair.Value, at); ok {
			values[of.file] = document
			w.places[joinPath(path, of.file)] = place
			return
		}
	}
	before := len(w.errors)
	var value any
	if from != "" {
		value = w.readOutside(pair.Value, from, joinPath(path, key))
	} else {
		value = w.walkValue(pair.Value, *of, at, depth+1)
	}
	switch _, left := value.(absent); {
	case left:
	case value == nil && len(w.errors) > before:
		w.missing[at] = true
	default:
		values[name] = value
	}
}

// findField finds the field of a key. The field of a secret also has keys with the suffixes _env, _file and _exec.
func (s *shape) findField(key string) (name string, of *shape, from string, known bool) {
	if found, ok := s.fields[key]; ok {
		return key, &found, "", true
	}
	for _, from := range []string{"env", "file", "exec"} {
		name, ok := strings.CutSuffix(key, "_"+from)
		if found := s.fields[name]; ok && found.secret {
			return name, &found, from, true
		}
	}
	return "", nil, "", false
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// PairsOf returns the members of a mapping; nil for other nodes.
func PairsOf(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// KeyText returns a key without quotes.
func KeyText(pair *ast.MappingValueNode) string {
	var key ast.Node = pair.Key
	if wrapped, ok := key.(*ast.MappingKeyNode); ok {
		key = wrapped.Value
	}
	if found, ok := scalarText(key); ok {
		return found
	}
	return key.String()
}

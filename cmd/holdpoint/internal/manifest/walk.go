package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// walker turns nodes into values, notes their positions, and collects errors.
type walker struct {
	Options
	file    string
	dir     string
	places  map[string]Place
	anchors map[string]ast.Node
	values  int
	errors  Errors
}

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
		w.places[path] = PlaceOf(node)
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
		key := KeyText(pairs[0])
		if key == "env" || key == "file" {
			return w.readOutside(pairs[0].Value, key, path+"."+key)
		}
	}
	switch {
	case s.secret:
		w.failf(node, path, "must be a value, {env: VARIABLE} or {file: PATH}")
	case node.Type() == ast.NullType:
		w.failf(node, path, "must be a value")
	default:
		w.failf(node, path, "must be a single value")
	}
	return nil
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
	}
	found, ok := scalarText(node)
	if _, quoted := node.(*ast.StringNode); !ok || !quoted && node.Type() != ast.LiteralType {
		w.failf(node, path, "must be a value that JSON can represent")
	}
	return found
}

// exactNumber returns a number as it is written, if JSON writes it likewise: 50.0 stays 50.0, and no digit is lost.
func exactNumber(node ast.Node, value any) any {
	if text := node.GetToken().Value; json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return value
}

// readOutside reads a value from a variable or a file.
func (w *walker) readOutside(node ast.Node, from, path string) any {
	name, ok := scalarText(node)
	if !ok || name == "" {
		w.failf(node, path, "must be the name of a variable, or of a file")
		return nil
	}
	if from == "env" {
		found := w.Getenv(name)
		if found == "" {
			w.failf(node, path, "the variable %s is not set on this machine", name)
		}
		return found
	}
	content, err := w.readFile(name)
	switch {
	case err != nil:
		w.failf(node, path, "%v", err)
	case !utf8.Valid(content):
		w.failf(node, path, "%s is not text", name)
	}
	return strings.TrimRight(string(content), "\r\n")
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
	items := make([]any, len(sequence.Values))
	for i, item := range sequence.Values {
		items[i] = w.walkValue(item, *s.of, fmt.Sprintf("%s[%d]", path, i), depth+1)
	}
	return items
}

func (w *walker) walkMapping(node ast.Node, s shape, path string, depth int) any {
	if _, ok := scalarText(node); ok && s.short != "" {
		return map[string]any{s.short: w.walkValue(node, s.fields[s.short], path, depth+1)}
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
	if _, twice := values[name]; twice {
		w.failf(pair.Key, path, "%q is given twice", name)
		return
	}
	at := joinPath(path, name)
	w.places[at] = PlaceOf(pair.Key)
	if of.file != "" {
		if document, ok := w.readDocument(pair.Value, at); ok {
			values[of.file] = document
			w.places[joinPath(path, of.file)] = PlaceOf(pair.Key)
			return
		}
	}
	if from != "" {
		values[name] = w.readOutside(pair.Value, from, joinPath(path, key))
		return
	}
	values[name] = w.walkValue(pair.Value, *of, at, depth+1)
}

// findField finds the field of a key. The field of a secret also has keys with the suffixes _env and _file.
func (s shape) findField(key string) (name string, of *shape, from string, known bool) {
	if found, ok := s.fields[key]; ok {
		return key, &found, "", true
	}
	for _, from := range []string{"env", "file"} {
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

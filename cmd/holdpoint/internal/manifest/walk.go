package manifest

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// walker turns nodes into values, notes where each was, and collects what is wrong.
type walker struct {
	Options
	file    string
	dir     string
	places  map[string]Place
	anchors map[string]ast.Node
	values  int
	errors  Errors
}

// Bounds on what a file may amount to once its aliases are replaced.
const (
	maxDepth  = 50
	maxValues = 200_000
)

func (w *walker) failf(node ast.Node, path, format string, args ...any) {
	w.errors = append(w.errors, &Error{File: w.file, Place: place(node), Path: path, Message: fmt.Sprintf(format, args...)})
}

// value reads a node that should have a shape.
func (w *walker) value(node ast.Node, s shape, path string, depth int) any {
	if w.values++; depth > maxDepth || w.values > maxValues {
		if depth > maxDepth || w.values == maxValues+1 {
			w.failf(node, path, "too deep or too much")
		}
		return nil
	}
	if _, ok := w.places[path]; !ok {
		w.places[path] = place(node)
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		w.anchors[n.Name.GetToken().Value] = n.Value
		return w.value(n.Value, s, path, depth+1)
	case *ast.AliasNode:
		target, ok := w.anchors[n.Value.GetToken().Value]
		if !ok {
			w.failf(node, path, "unknown alias *%s", n.Value.GetToken().Value)
			return nil
		}
		return w.value(target, s, path, depth+1)
	case *ast.TagNode:
		return w.value(n.Value, s, path, depth+1)
	}
	switch s.kind {
	case list:
		return w.list(node, s, path, depth)
	case dictionary, object:
		return w.mapping(node, s, path, depth)
	case boolean:
		if n, ok := node.(*ast.BoolNode); ok {
			return n.Value
		}
		w.failf(node, path, "want true or false")
		return nil
	case number:
		return w.number(node, path)
	case decimal:
		return w.decimal(node, path)
	case duration:
		return w.duration(node, path)
	case free:
		return w.free(node, path, depth)
	default:
		return w.word(node, s, path)
	}
}

// text is a scalar as it is written: 8080 and true are words too.
func text(node ast.Node) (string, bool) {
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

func (w *walker) word(node ast.Node, s shape, path string) any {
	if found, ok := text(node); ok {
		return found
	}
	if pairs := pairsOf(node); s.secret && len(pairs) == 1 {
		key := keyText(pairs[0])
		if key == "env" || key == "file" {
			return w.outside(pairs[0].Value, key, path+"."+key)
		}
	}
	switch {
	case s.secret:
		w.failf(node, path, "want a value, {env: VARIABLE} or {file: PATH}")
	case node.Type() == ast.NullType:
		w.failf(node, path, "want a value")
	default:
		w.failf(node, path, "want a single value")
	}
	return nil
}

func (w *walker) duration(node ast.Node, path string) any {
	found, ok := text(node)
	if _, err := time.ParseDuration(found); !ok || err != nil {
		w.failf(node, path, "want a duration such as 90s, 5m or 1h30m")
		return nil
	}
	return found
}

func (w *walker) number(node ast.Node, path string) any {
	found, ok := text(node)
	n, err := strconv.Atoi(found)
	if !ok || err != nil {
		w.failf(node, path, "want a whole number")
		return nil
	}
	return n
}

func (w *walker) decimal(node ast.Node, path string) any {
	found, ok := text(node)
	x, err := strconv.ParseFloat(found, 64)
	if !ok || err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		w.failf(node, path, "want a number such as 3 or 0.25")
		return nil
	}
	return x
}

// free reads whatever JSON can say too, such as a JSON Schema.
func (w *walker) free(node ast.Node, path string, depth int) any {
	switch n := node.(type) {
	case *ast.SequenceNode:
		return w.list(node, shape{kind: list, of: &shape{kind: free}}, path, depth)
	case *ast.MappingNode, *ast.MappingValueNode:
		return w.mapping(node, shape{kind: dictionary, of: &shape{kind: free}}, path, depth)
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	}
	found, ok := text(node)
	if _, quoted := node.(*ast.StringNode); !ok || !quoted && node.Type() != ast.LiteralType {
		w.failf(node, path, "want what JSON can say")
	}
	return found
}

// outside reads a value that stands in a variable or a file.
func (w *walker) outside(node ast.Node, from, path string) any {
	name, ok := text(node)
	if !ok || name == "" {
		w.failf(node, path, "want the name of a variable, or of a file")
		return nil
	}
	if from == "env" {
		found := w.Getenv(name)
		if found == "" {
			w.failf(node, path, "the variable %s is not set on this machine", name)
		}
		return found
	}
	content, err := w.read(name)
	switch {
	case err != nil:
		w.failf(node, path, "%v", err)
	case !utf8.Valid(content):
		w.failf(node, path, "%s is not text", name)
	}
	return strings.TrimRight(string(content), "\r\n")
}

// maxFile bounds a file that is sent as a whole, in bytes.
const maxFile = 32 << 20

// document is what a file holds that a path names; false: it is a URL, or nothing that names a file.
func (w *walker) document(node ast.Node, path string) (string, bool) {
	name, ok := text(node)
	if !ok || name == "" || IsURL(name) {
		return "", false
	}
	content, err := w.read(name)
	switch {
	case err != nil:
		w.failf(node, path, "want the URL of an OpenAPI document, or the path of a file: %v", err)
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

// read reads a file; a relative path is below the folder of the file that names it.
func (w *walker) read(name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.dir, name)
	}
	return w.ReadFile(name)
}

func (w *walker) list(node ast.Node, s shape, path string, depth int) any {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		w.failf(node, path, "want a list")
		return nil
	}
	items := make([]any, len(sequence.Values))
	for i, item := range sequence.Values {
		items[i] = w.value(item, *s.of, fmt.Sprintf("%s[%d]", path, i), depth+1)
	}
	return items
}

func (w *walker) mapping(node ast.Node, s shape, path string, depth int) any {
	if _, ok := text(node); ok && s.short != "" {
		return map[string]any{s.short: w.value(node, s.fields[s.short], path, depth+1)}
	}
	pairs := pairsOf(node)
	if pairs == nil && node.Type() != ast.MappingType {
		w.failf(node, path, "want a mapping")
		return nil
	}
	values := map[string]any{}
	for _, pair := range pairs {
		w.member(values, pair, s, path, depth)
	}
	return values
}

// member reads one member of a mapping into values.
func (w *walker) member(values map[string]any, pair *ast.MappingValueNode, s shape, path string, depth int) {
	key := keyText(pair)
	if pair.Key.Type() == ast.MergeKeyType {
		w.failf(pair.Key, path, "merge keys (<<) are not supported")
		return
	}
	name, of, from := key, s.of, ""
	if s.kind == object {
		var known bool
		if name, of, from, known = s.field(key); !known {
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
	at := below(path, name)
	w.places[at] = place(pair.Key)
	if of.file != "" {
		if document, ok := w.document(pair.Value, at); ok {
			values[of.file] = document
			w.places[below(path, of.file)] = place(pair.Key)
			return
		}
	}
	if from != "" {
		values[name] = w.outside(pair.Value, from, below(path, key))
		return
	}
	values[name] = w.value(pair.Value, *of, at, depth+1)
}

// field finds the field that a key is of: its own, or for secrets that of
// its name with _env or _file.
func (s shape) field(key string) (name string, of *shape, from string, known bool) {
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

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func pairsOf(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func keyText(pair *ast.MappingValueNode) string {
	var key ast.Node = pair.Key
	if wrapped, ok := key.(*ast.MappingKeyNode); ok {
		key = wrapped.Value
	}
	if found, ok := text(key); ok {
		return found
	}
	return key.String()
}

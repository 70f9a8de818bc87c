package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// storedValue stands for a secret that the server has.
type storedValue struct{}

// Write writes a spec of the API as the text of holdpoint.yaml. Secrets are written as {stored: true}. documents are the paths of the
// OpenAPI documents of skills, by the skills' names.
func Write(spec json.RawMessage, documents map[string]string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(spec))
	decoder.UseNumber()
	var top map[string]any
	if err := decoder.Decode(&top); err != nil {
		return nil, fmt.Errorf("decode spec: %w", err)
	}
	stored, _ := top["stored"].([]any)
	delete(top, "stored")
	for _, path := range stored {
		if text, isText := path.(string); !isText || !setStored(top, text) {
			return nil, fmt.Errorf("stored: %v is not a path of the spec", path)
		}
	}
	skills, _ := top["skills"].([]any)
	for _, skill := range skills {
		fields, _ := skill.(map[string]any)
		name, _ := fields["name"].(string)
		if path, has := documents[name]; has {
			fields["spec"] = path
		}
	}
	var w writer
	w.writeObject(top, topShape(), 0)
	return w.Bytes(), nil
}

// setStored sets the secret at a path such as skills[0].headers.X-Key. Names of headers may have dots.
func setStored(top map[string]any, path string) bool {
	var list string
	var at int
	part, path, _ := strings.Cut(path, ".")
	if _, err := fmt.Sscanf(strings.NewReplacer("[", " ", "]", "").Replace(part), "%s %d", &list, &at); err != nil {
		return false
	}
	items, _ := top[list].([]any)
	if at < 0 || at >= len(items) {
		return false
	}
	value, s := items[at], *topShape().fields[list].of
	for path != "" {
		fields, isObject := value.(map[string]any)
		if !isObject {
			return false
		}
		name, rest, _ := strings.Cut(path, ".")
		if s.kind == dictionary {
			name, rest = path, ""
			s = *s.of
		} else {
			s = s.fields[name]
		}
		if rest == "" {
			fields[name] = storedValue{}
			return s.secret
		}
		if fields[name] == nil {
			fields[name] = map[string]any{}
		}
		value, path = fields[name], rest
	}
	return false
}

// writer writes values as YAML.
type writer struct{ bytes.Buffer }

const indentation = "  "

// writeObject writes the members of a mapping, each on lines of its own. The first line is not indented if the writer is inside of one.
func (w *writer) writeObject(fields map[string]any, s shape, depth int) {
	names := slices.Sorted(maps.Keys(fields))
	if s.kind == object {
		names = slices.DeleteFunc(slices.Clone(s.listNames()), func(name string) bool {
			_, has := fields[name]
			return !has
		})
	}
	for i, name := range names {
		if i > 0 || w.isAtLineStart() {
			w.WriteString(strings.Repeat(indentation, depth))
		}
		w.WriteString(formatText(name) + ":")
		w.writeMember(fields[name], s.member(name), depth)
	}
}

func (w *writer) isAtLineStart() bool {
	return w.Len() == 0 || bytes.HasSuffix(w.Bytes(), []byte("\n"))
}

// member returns the shape of a member.
func (s *shape) member(name string) shape {
	switch s.kind {
	case object:
		return s.fields[name]
	case dictionary:
		return *s.of
	default:
		return shape{kind: free}
	}
}

// element returns the shape of an element.
func (s *shape) element() shape {
	if s.kind == list {
		return *s.of
	}
	return shape{kind: free}
}

// writeMember writes the value after a key.
func (w *writer) writeMember(value any, s shape, depth int) {
	if text, ok := formatInline(value, s); ok {
		w.WriteString(" " + text + "\n")
		return
	}
	switch v := value.(type) {
	case string:
		w.writeLiteral(v, depth+1)
	case map[string]any:
		w.WriteString("\n")
		w.writeObject(v, s, depth+1)
	case []any:
		w.WriteString("\n")
		w.writeList(v, s.element(), depth+1)
	}
}

func (w *writer) writeList(items []any, of shape, depth int) {
	for _, item := range items {
		w.WriteString(strings.Repeat(indentation, depth) + "-")
		if fields, isObject := item.(map[string]any); isObject && len(fields) > 0 {
			if _, inline := formatInline(item, of); !inline {
				w.WriteString(" ")
				w.writeObject(fields, of, depth+1)
				continue
			}
		}
		w.writeMember(item, of, depth)
	}
}

// maxInline bounds a list that is written on one line.
const maxInline = 100

// formatInline formats a value that fits on the line of its key; false: it needs lines of its own.
func formatInline(value any, s shape) (string, bool) {
	switch v := value.(type) {
	case storedValue:
		return "{stored: true}", true
	case nil:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		return v.String(), true
	case string:
		if fitsLiteral(v) {
			return "", false
		}
		return formatText(v), true
	case map[string]any:
		if len(v) == 0 {
			return "{}", true
		}
		if only, has := v[s.short]; has && len(v) == 1 && s.short != "" {
			return formatInline(only, s.fields[s.short])
		}
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			text, ok := formatInline(item, s.element())
			if _, isMap := item.(map[string]any); !ok || isMap && strings.HasPrefix(text, "{") {
				return "", false
			}
			parts[i] = text
		}
		text := "[" + strings.Join(parts, ", ") + "]"
		return text, len(text) <= maxInline
	}
	return "", false
}

// plainText matches texts that YAML reads as text without quotes, wherever they are.
var plainText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)

// formatText writes a text on one line so that YAML reads it back: JSON's strings are YAML, too.
func formatText(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
	default:
		if plainText.MatchString(text) {
			return text
		}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSpace(b.String())
}

// fitsLiteral reports whether a text is several lines that a literal block shows as they are.
func fitsLiteral(text string) bool {
	body := strings.TrimSuffix(text, "\n")
	if !strings.Contains(body, "\n") || !utf8.ValidString(text) || strings.HasPrefix(body, "\n") || strings.HasSuffix(body, "\n") {
		return false
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.TrimRightFunc(line, unicode.IsSpace) != line || strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return false
		}
	}
	return !strings.HasPrefix(body, " ")
}

// writeLiteral writes lines as a literal block.
func (w *writer) writeLiteral(text string, depth int) {
	w.WriteString(" |")
	if !strings.HasSuffix(text, "\n") {
		w.WriteString("-")
	}
	w.WriteString("\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if line != "" {
			w.WriteString(strings.Repeat(indentation, depth) + line)
		}
		w.WriteString("\n")
	}
}

package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonFile is a file of JSON in which only the edited places change: order, white space and comments stay.
type jsonFile struct {
	root hujson.Value
	// indent is one level of indentation in the file.
	indent string
}

// errNotObject is a file whose value is not an object.
var errNotObject = errors.New("must be a JSON object")

// parseJSON reads a file. Empty text is an empty object. It refuses names that occur twice, which programs read differently. Comments are
// refused unless the host allows them, because it would ignore the whole file.
func parseJSON(text []byte, comments bool) (*jsonFile, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if nestsDeeply(text) {
		return nil, fmt.Errorf("must nest lists and objects at most %d deep", maxNesting)
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, errNotObject
	}
	for v := range root.All() {
		if err := checkJSON(v, comments); err != nil {
			return nil, err
		}
	}
	if !comments && !root.IsStandard() {
		return nil, errors.New("must have no comments and no comma before a closing bracket: the host ignores a file with them")
	}
	return &jsonFile{root: root, indent: findIndent(text)}, nil
}

// maxNesting is how deep lists and objects may be nested. The parser would overflow the stack at a million.
const maxNesting = 100

var nestingToken = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*(?:"|\\?\z)|//[^\n]*|/\*.*?(?:\*/|\z)|[\[{\]}]`)

// nestsDeeply reports whether lists and objects are nested deeper than maxNesting. A text or comment that does not end goes to the end of the
// file: else each would be searched to its end.
func nestsDeeply(text []byte) bool {
	depth := 0
	for _, token := range nestingToken.FindAll(text, -1) {
		switch token[0] {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > maxNesting {
			return true
		}
	}
	return false
}

// checkJSON refuses a value that programs read differently.
func checkJSON(v *hujson.Value, comments bool) error {
	switch v := v.Value.(type) {
	case *hujson.Object:
		known := map[string]bool{}
		for i := range v.Members {
			name := v.Members[i].Name.Value.(hujson.Literal).String() //nolint:forcetypeassert // names are literals
			if known[name] {
				return fmt.Errorf("must have the name %q once", name)
			}
			known[name] = true
		}
		if n := len(v.Members); comments && n > 0 && v.Members[n-1].Value.AfterExtra != nil {
			return errors.New("must have no comma before a closing brace: the host ignores a file with one")
		}
	case *hujson.Array:
		if n := len(v.Elements); comments && n > 0 && v.Elements[n-1].AfterExtra != nil {
			return errors.New("must have no comma before a closing bracket: the host ignores a file with one")
		}
	}
	return nil
}

// findIndent returns the white space before the first member of a file.
func findIndent(text []byte) string {
	_, rest, found := bytes.Cut(text, []byte("{\n"))
	if indent := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))]; found && len(indent) > 0 && len(indent) <= 8 {
		return string(indent)
	}
	return "  "
}

func (f *jsonFile) text() []byte {
	f.root.UpdateOffsets()
	text := f.root.Pack()
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	return text
}

// find returns a value at a path of names, or nil.
func (f *jsonFile) find(path ...string) *hujson.Value {
	at := &f.root
	for _, name := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil
		}
		i := indexMember(object, name)
		if i < 0 {
			return nil
		}
		at = &object.Members[i].Value
	}
	return at
}

func indexMember(object *hujson.Object, name string) int {
	for i := range object.Members {
		if object.Members[i].Name.Value.(hujson.Literal).String() == name { //nolint:forcetypeassert // names are literals
			return i
		}
	}
	return -1
}

// decode reads a value at a path into v. It reports whether the value is there.
func (f *jsonFile) decode(v any, path ...string) (bool, error) {
	found := f.find(path...)
	if found == nil {
		return false, nil
	}
	bare := found.Clone()
	bare.Minimize()
	if err := json.Unmarshal(bare.Pack(), v); err != nil {
		return true, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	return true, nil
}

// makeValue writes a value as JSON that is indented for a depth.
func (f *jsonFile) makeValue(v any, depth int) hujson.Value {
	made, err := hujson.Parse(encodeJSON(v, strings.Repeat(f.indent, depth), f.indent))
	if err != nil {
		panic(err) // it was just written
	}
	made.BeforeExtra, made.AfterExtra = nil, nil
	return made
}

// encodeJSON writes a value that has only maps, lists, texts and numbers.
func encodeJSON(v any, prefix, indent string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(prefix, indent)
	if err := encoder.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// put sets the value at a path. It makes the objects above it.
func (f *jsonFile) put(v any, path ...string) error {
	at := &f.root
	for depth, name := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return fmt.Errorf("%s: %w", strings.Join(path[:depth], "."), errNotObject)
		}
		last := depth == len(path)-1
		i := indexMember(object, name)
		if i < 0 {
			var value any = map[string]any{}
			if last {
				value = v
			}
			i = f.addMember(object, depth+1, name, f.makeValue(value, depth+1))
		} else if last {
			made := f.makeValue(v, depth+1)
			object.Members[i].Value.Value = made.Value
		}
		at = &object.Members[i].Value
	}
	return nil
}

// addMember appends a member to an object whose members have a depth, and returns its index.
func (f *jsonFile) addMember(object *hujson.Object, depth int, name string, value hujson.Value) int {
	member := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: value}
	var before hujson.Extra
	if n := len(object.Members); n > 0 {
		before = object.Members[n-1].Name.BeforeExtra
	}
	member.Name.BeforeExtra = f.place(before, len(object.Members), &object.AfterExtra, depth)
	member.Value.BeforeExtra = hujson.Extra(" ")
	object.Members = append(object.Members, member)
	return len(object.Members) - 1
}

// add appends an element to the list at a path. It makes the list.
func (f *jsonFile) add(v any, path ...string) error {
	found := f.find(path...)
	if found == nil {
		if err := f.put([]any{}, path...); err != nil {
			return err
		}
		found = f.find(path...)
	}
	list, ok := found.Value.(*hujson.Array)
	if !ok {
		return fmt.Errorf("%s: must be a list", strings.Join(path, "."))
	}
	depth := len(path) + 1
	element := f.makeValue(v, depth)
	var before hujson.Extra
	if n := len(list.Elements); n > 0 {
		before = list.Elements[n-1].BeforeExtra
	}
	element.BeforeExtra = f.place(before, len(list.Elements), &list.AfterExtra, depth)
	list.Elements = append(list.Elements, element)
	return nil
}

// place returns the white space before something that is appended behind n others, of which the last has white space before it. What comes before
// the closing bracket is after: its comments stay where they are, before what is appended.
func (f *jsonFile) place(before hujson.Extra, n int, after *hujson.Extra, depth int) hujson.Extra {
	if n > 0 && !bytes.Contains(before, []byte("\n")) && !bytes.Contains(*after, []byte("\n")) {
		return hujson.Extra(" ") // all on one line
	}
	line := "\n" + strings.Repeat(f.indent, depth)
	if i := bytes.LastIndexByte(before, '\n'); i >= 0 && len(bytes.TrimSpace(before[i:])) == 0 {
		line = string(before[i:])
	}
	comments := findComments(*after)
	if i := bytes.LastIndexByte(*after, '\n'); i < 0 {
		*after = hujson.Extra("\n" + strings.Repeat(f.indent, depth-1))
	} else if comments != "" {
		*after = (*after)[i:]
	}
	return hujson.Extra(comments + line)
}

// findComments returns the part of white space with comments, without the last line.
func findComments(extra hujson.Extra) string {
	i := max(bytes.LastIndexByte(extra, '\n'), 0)
	switch {
	case i == 0 && len(bytes.TrimSpace(extra)) > 0:
		return string(extra)
	case len(bytes.TrimSpace(extra[:i])) == 0:
		return ""
	}
	return string(extra[:i])
}

// remove takes out the member at a path, and then each object above it that is empty.
func (f *jsonFile) remove(path ...string) {
	for n := len(path); n > 0; n-- {
		above := f.find(path[:n-1]...)
		if above == nil {
			return
		}
		object, ok := above.Value.(*hujson.Object)
		if !ok {
			return
		}
		if i := indexMember(object, path[n-1]); i >= 0 {
			comments := findComments(object.Members[i].Name.BeforeExtra)
			object.Members = append(object.Members[:i], object.Members[i+1:]...)
			next := &object.AfterExtra
			if i < len(object.Members) {
				next = &object.Members[i].Name.BeforeExtra
			} else if i > 0 {
				object.Members[i-1].Value.AfterExtra = nil // else a comma comes after it
			}
			*next = append(hujson.Extra(comments), *next...)
		}
		if len(object.Members) > 0 || len(bytes.TrimSpace(object.AfterExtra)) > 0 {
			return
		}
		object.AfterExtra = nil
	}
}

// removeElements takes elements out of the list at a path, and the list if it is empty then.
func (f *jsonFile) removeElements(matches func(json.RawMessage) bool, path ...string) int {
	found := f.find(path...)
	if found == nil {
		return 0
	}
	list, ok := found.Value.(*hujson.Array)
	if !ok {
		return 0
	}
	var kept []hujson.Value
	comments := ""
	for _, element := range list.Elements {
		bare := element.Clone()
		bare.Minimize()
		if matches(bare.Pack()) {
			comments += findComments(element.BeforeExtra)
			continue
		}
		element.BeforeExtra = append(hujson.Extra(comments), element.BeforeExtra...)
		comments = ""
		kept = append(kept, element)
	}
	removed := len(list.Elements) - len(kept)
	list.Elements = kept
	list.AfterExtra = append(hujson.Extra(comments), list.AfterExtra...)
	switch {
	case removed == 0:
	case len(kept) == 0 && len(bytes.TrimSpace(list.AfterExtra)) == 0:
		f.remove(path...)
	case len(kept) > 0:
		list.Elements[len(kept)-1].AfterExtra = nil
	}
	return removed
}

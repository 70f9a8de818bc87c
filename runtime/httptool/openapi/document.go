package openapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// Limits of a document.
const (
	maxReason = 300 // bytes
	maxHops   = 16  // references that refer to references
)

// document is an OpenAPI document, 3.0 or 3.1, parsed but not validated: an invalid operation does not affect the others.
type document struct {
	*work
	root    *value
	version string // "3.0.3"
	// resolved caches the targets of references, and indexes the members of large objects.
	resolved map[string]*value
	indexes  map[*value]map[string]*value
}

// readDocument reads an OpenAPI document in JSON or YAML.
func readDocument(ctx context.Context, text []byte) (_ *document, err error) {
	defer func() {
		// Libraries parse hostile text here. A document that makes one panic cannot be read.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the document cannot be read: %s", plain.Line(fmt.Sprint(cause), maxReason))
		}
	}()
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	read, form := readYAML, "YAML"
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		read, form = readJSON, "JSON"
	}
	root, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("the document cannot be read as %s: %w", form, err)
	}
	d := &document{work: &work{ctx: ctx, left: maxWork, patterns: map[string]bool{}}, root: root, version: root.get("openapi").str(), resolved: map[string]*value{}, indexes: map[*value]map[string]*value{}}
	if root.get("openapi").is('0') { // 3.1 without quotation marks
		d.version = root.get("openapi").text
	}
	switch {
	case !root.is('{'):
		return nil, errors.New("openapi: must be an object with a member openapi")
	case d.hasVersion("3.0"), d.hasVersion("3.1"):
	case root.get("swagger") != nil:
		version := root.get("swagger")
		return nil, fmt.Errorf("openapi: must be 3.0.x or 3.1.x, not swagger %s; convert it to OpenAPI 3 first", plain.Line(version.text, 20))
	case d.version == "":
		return nil, errors.New("openapi: must be 3.0.x or 3.1.x; it names no version")
	default:
		return nil, fmt.Errorf("openapi: must be 3.0.x or 3.1.x, not %s", plain.Line(d.version, 20))
	}
	if !root.get("paths").is('{') && root.get("paths") != nil {
		return nil, errors.New("paths: must be an object")
	}
	return d, nil
}

// hasVersion reports whether the document has a version of OpenAPI, "3.1".
func (d *document) hasVersion(version string) bool {
	return d.version == version || strings.HasPrefix(d.version, version+".")
}

// followRef returns the target of a reference object, and other values unchanged.
func (d *document) followRef(v *value) (*value, error) {
	for range maxHops {
		d.spend(1 + len(v.all()))
		ref := v.get("$ref")
		if !ref.is('"') {
			return v, nil
		}
		next, err := d.lookupRef(ref.text)
		if err != nil {
			return nil, err
		}
		v = next
	}
	return nil, errors.New("references go round in circles")
}

// besideRef returns the members of a schema beside its reference, if they count: since 3.1 they do, in 3.0 they do not (OpenAPI 3.1,
// section 4.8.24; 3.0, section 4.7.23). Nil: none do.
func (d *document) besideRef(v *value) *value {
	if !d.hasVersion("3.1") || len(v.all()) < 2 {
		return nil
	}
	rest := value{kind: '{', members: slices.DeleteFunc(slices.Clone(v.members), func(m member) bool { return m.name == "$ref" })}
	return &rest
}

// lookupRef returns the target of a reference, a JSON pointer in a fragment (RFC 6901). It refuses references to other documents.
func (d *document) lookupRef(ref string) (*value, error) {
	d.spend(1 + len(ref))
	if found, ok := d.resolved[ref]; ok {
		return found, nil
	}
	path, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil, fmt.Errorf("reference %s: only references within the document (#/…) are followed", plain.Quoted(ref, 100))
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, fmt.Errorf("reference %s: is no JSON pointer", plain.Quoted(ref, 100))
	}
	found := d.root
	for name := range strings.SplitSeq(path, "/") {
		if found = d.findChild(found, jsontext.Pointer("/"+name).LastToken()); found == nil {
			return nil, fmt.Errorf("reference %s: leads nowhere", plain.Quoted(ref, 100))
		}
	}
	d.resolved[ref] = found
	return found, nil
}

// findChild returns a member of an object or an element of an array.
func (d *document) findChild(v *value, name string) *value {
	switch {
	case v.is('{') && len(v.members) > 32:
		index := d.indexes[v]
		if index == nil {
			index = make(map[string]*value, len(v.members))
			for i := range v.members {
				index[v.members[i].name] = &v.members[i].value
			}
			d.indexes[v] = index
		}
		return index[name]
	case !v.is('['):
		return v.get(name)
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(v.members) {
		return nil
	}
	return &v.members[i].value
}

// operation is one operation of a document.
type operation struct {
	name   string // of the tool
	method string
	path   string
	object *value // the Operation Object
	item   *value // the Path Item Object that contains it
	err    error  // set if it cannot be read
}

func (o *operation) id() string { return o.object.get("operationId").str() }

// listOperations returns all operations in document order, each with the name of its tool.
func (d *document) listOperations() []*operation {
	methods := []string{"GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"} // OpenAPI 3.1, section 4.8.9
	var list []*operation
	paths := d.root.get("paths").all() // once, because get searches an object from its beginning
	for i := range paths {
		path := &paths[i]
		if strings.HasPrefix(path.name, "x-") {
			continue
		}
		item, err := d.followRef(&path.value)
		if err != nil { // its methods are unknown
			list = append(list, &operation{path: path.name, err: err})
			continue
		}
		for j := range item.all() {
			method := &item.members[j]
			if upper := strings.ToUpper(method.name); slices.Contains(methods, upper) && strings.ToLower(method.name) == method.name {
				// Some documents tell paths apart by a fragment, which is never sent.
				sent, _, _ := strings.Cut(path.name, "#")
				list = append(list, &operation{method: upper, path: sent, object: &method.value, item: item})
			}
		}
	}
	names := newNameSet(toolNameLength, isToolRune)
	for _, o := range list {
		wanted := o.id()
		if wanted == "" {
			wanted = o.method + "_" + strings.Trim(o.path, "/")
		}
		o.name = names.takeName(wanted)
	}
	return list
}

package httptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// outboundRequest is a request before it is sent. It knows which of its parts are secret.
type outboundRequest struct {
	method  string
	base    *url.URL // without query and fragment
	path    string   // the whole path, escaped
	query   []field  // escaped
	header  []field  // in display order
	cookies []field  // escaped
	host    string   // Host; empty: the host of the URL
	body    []byte
	media   string // Content-Type; empty: there is no body
	secrets []string
}

// field is a name and a value of a query, a header or a cookie.
type field struct {
	name, value string
	secret      bool
	argument    string // the argument that it comes from; empty: none
}

// arguments are a call's arguments. They record which were used.
type arguments struct {
	values map[string]json.RawMessage
	used   map[string]bool
}

func readArguments(raw json.RawMessage) (*arguments, error) {
	a := &arguments{values: map[string]json.RawMessage{}, used: map[string]bool{}}
	if len(bytes.TrimSpace(raw)) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(raw, &a.values); err != nil || a.values == nil {
		return nil, &argumentError{"", "the arguments are not a JSON object"}
	}
	return a, nil
}

// takeArgument returns an argument and whether it was given, and marks it as used.
func (a *arguments) takeArgument(name string) (json.RawMessage, bool) {
	raw, ok := a.values[name]
	a.used[name] = true
	return raw, ok
}

// takeValue is take for places other than JSON, where null means that the argument was not given.
func (a *arguments) takeValue(name string) (json.RawMessage, bool) {
	raw, ok := a.takeArgument(name)
	return raw, ok && string(bytes.TrimSpace(raw)) != "null"
}

// givenParams yields the parameters in a place of the request that have a value, with that value.
func (a *arguments) givenParams(b *openapi.Binding, place string) iter.Seq2[*openapi.Param, json.RawMessage] {
	return func(yield func(*openapi.Param, json.RawMessage) bool) {
		for i := range b.Params {
			p := &b.Params[i]
			if p.In != place {
				continue
			}
			if raw, ok := a.takeValue(p.Arg); ok && !yield(p, raw) {
				return
			}
		}
	}
}

// findUnused returns the name of an argument that was not used.
func (a *arguments) findUnused() (string, bool) {
	var names []string
	for name := range a.values {
		if !a.used[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return slices.Min(names), true
}

// resolveRequest builds a request from a binding and arguments. An *argumentError is about the arguments, other errors are about the
// definition or the skill. Unless allowUnused is set, each argument must have a place in the request.
func resolveRequest(b *openapi.Binding, base string, raw json.RawMessage, allowUnused bool) (*outboundRequest, error) {
	o := &outboundRequest{method: strings.ToUpper(b.Method)}
	if !isToken(o.method) || o.method == http.MethodConnect || o.method == http.MethodTrace {
		return nil, fmt.Errorf("the method %q cannot be sent", plain.Line(b.Method, 40))
	}
	var err error
	if o.base, err = parseBase(base); err != nil {
		return nil, err
	}
	args, err := readArguments(raw)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(*openapi.Binding, *arguments) error{o.putPath, o.putQuery, o.putHeader, o.putCookies, o.putBody} {
		if err := step(b, args); err != nil {
			return nil, err
		}
	}
	if name, found := args.findUnused(); found && !allowUnused {
		return nil, badArgument(name, "is none of this tool's")
	}
	return o, nil
}

// parseBase reads a base URL, whose path is a prefix of all paths.
func parseBase(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("the skill has no base URL")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		return nil, errors.New("the base URL is not an http or https URL")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the base URL has a query or a fragment, which it cannot have")
	case hasTraversal(u.EscapedPath()):
		return nil, errors.New("the base URL's path has . or .. in it")
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil && !isASCII(u.Hostname()) { // IP addresses and names with underscores are valid
		return nil, errors.New("the base URL's host is not a name")
	}
	if err == nil && host != u.Hostname() {
		if port := u.Port(); port != "" {
			host += ":" + port
		}
		u.Host = host
	}
	return u, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7E })
}

func (o *outboundRequest) putPath(b *openapi.Binding, args *arguments) error {
	values := map[string]string{}
	for i := range b.Params {
		p := &b.Params[i]
		if p.In != openapi.InPath {
			continue
		}
		text, err := encodePathValue(p, args)
		if err != nil {
			return err
		}
		values[p.Name] = text
	}
	template, query, hasQuery := strings.Cut(b.Path, "?")
	if hasQuery {
		for text := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(text, "=")
			o.query = append(o.query, field{name: escapeAll(decodePercent(name)), value: escapeAll(decodePercent(value))})
		}
	}
	var filled strings.Builder // one pass: braces in a value are not expanded
	for rest := template; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		filled.WriteString(escapeLiteral(literal))
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		value, known := values[name]
		if !closed || !known {
			return fmt.Errorf("the path has {%s}, which is none of its parameters", plain.Line(name, 100))
		}
		filled.WriteString(value)
		if filled.Len() > maxAddress {
			return badArgument(name, "makes a path of more than %d bytes", maxAddress)
		}
		rest = after
	}
	path := filled.String()
	if path != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if hasTraversal(path) {
		return errors.New("the path has . or .. in it")
	}
	o.path = strings.TrimSuffix(o.base.EscapedPath(), "/") + path
	return nil
}

func encodePathValue(p *openapi.Param, args *arguments) (string, error) {
	raw, ok := args.takeValue(p.Arg)
	if !ok {
		return "", badArgument(p.Arg, "is required: it is part of the path")
	}
	var v flatValue
	op, known := pathOperator(p.Style)
	if p.JSON {
		v = flatValue{kind: '"', text: string(raw)}
	} else {
		if !known {
			return "", fmt.Errorf("style %q is none of a path", plain.Line(p.Style, 40))
		}
		var err error
		if v, err = flattenArgument(p.Arg, raw); err != nil {
			return "", err
		}
	}
	if v.isEmpty() {
		return "", badArgument(p.Arg, "must not be empty: it is part of the path")
	}
	for _, text := range v.allTexts() {
		if text == "" || hasTraversal(text) {
			return "", badArgument(p.Arg, `must not be empty, and must not have "." or ".." as a part of a path: it would lead to another resource`)
		}
	}
	return op.expandValue(p.Name, v, p.Explode, escapeAll), nil
}

func (o *outboundRequest) putQuery(b *openapi.Binding, args *arguments) error {
	length := 0
	own := map[string]bool{} // names that no member of an exploded object may have
	for _, f := range o.query {
		own[f.name] = true
	}
	for i := range b.Params {
		if p := &b.Params[i]; p.In == openapi.InQuery {
			own[escapeAll(p.Name)] = true
		}
	}
	for p, raw := range args.givenParams(b, openapi.InQuery) {
		escape := escapeAll
		if p.AllowReserved {
			escape = escapeReserved
		}
		pairs, err := encodeParam(p, raw, escape)
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			if pair.name != escapeAll(p.Name) && own[pair.name] {
				return badArgument(p.Arg, "has the member %q, which is another parameter of the query", plain.Line(decodePercent(pair.name), 100))
			}
			o.query = append(o.query, field{name: pair.name, value: pair.value, argument: p.Arg})
			if length += len(pair.name) + len(pair.value) + 2; length > maxAddress {
				return badArgument(p.Arg, "makes a query of more than %d bytes", maxAddress)
			}
		}
	}
	return nil
}

// maxAddress bounds a path, and also a query, in bytes. No server accepts longer ones.
const maxAddress = 256 << 10

func encodeParam(p *openapi.Param, raw json.RawMessage, escape func(string) string) ([]pair, error) {
	if p.JSON {
		return []pair{{escapeAll(p.Name), escape(string(raw))}}, nil
	}
	return encodePairs(p.Arg, p.Name, p.Style, p.Explode, raw, escape)
}

func (o *outboundRequest) putHeader(b *openapi.Binding, args *arguments) error {
	if err := o.setHeader(field{name: "Accept", value: cmp.Or(b.Accept, "*/*")}); err != nil {
		return err
	}
	for p, raw := range args.givenParams(b, openapi.InHeader) {
		text := string(raw)
		if !p.JSON {
			v, err := flattenArgument(p.Arg, raw)
			if err != nil {
				return err
			}
			text = operator{separator: ","}.expandValue(p.Name, v, p.Explode, func(s string) string { return s })
		}
		if problem := setting.HeaderValueProblem(text); problem != "" {
			return badArgument(p.Arg, "%s", problem)
		}
		if !isToken(p.Name) || setting.IsReservedHeader(p.Name) {
			return badArgument(p.Arg, "would be the header %s, which no argument sets", plain.Line(p.Name, 100))
		}
		if err := o.setHeader(field{name: p.Name, value: text, argument: p.Arg}); err != nil {
			return err
		}
	}
	for _, f := range b.Fixed {
		if !isToken(f.Name) || setting.IsReservedHeader(f.Name) {
			return fmt.Errorf("the endpoint's header %s is none that it may set", plain.Line(f.Name, 100))
		}
		if problem := setting.HeaderValueProblem(f.Value); problem != "" {
			return fmt.Errorf("the value of the endpoint's header %s %s", plain.Line(f.Name, 100), problem)
		}
		if err := o.setHeader(field{name: f.Name, value: f.Value}); err != nil {
			return err
		}
	}
	return nil
}

// setHeader adds or replaces a header field. It refuses to replace an argument's.
func (o *outboundRequest) setHeader(f field) error {
	f.name = textproto.CanonicalMIMEHeaderKey(f.name)
	for i := range o.header {
		if o.header[i].name != f.name {
			continue
		}
		if o.header[i].argument != "" {
			return conflictError(o.header[i].argument, "header", f.name)
		}
		o.header = slices.Delete(o.header, i, i+1)
		break
	}
	o.header = append(o.header, f)
	return nil
}

// conflictError refuses an argument in a place that the skill sets itself.
func conflictError(argument, place, name string) error {
	return badArgument(argument, "would be the %s %s, which the skill sets itself", place, plain.Line(name, 100))
}

func (o *outboundRequest) putCookies(b *openapi.Binding, args *arguments) error {
	own := map[string]bool{}
	for i := range b.Params {
		if p := &b.Params[i]; p.In == openapi.InCookie {
			own[p.Name] = true
		}
	}
	for p, raw := range args.givenParams(b, openapi.InCookie) {
		pairs, err := encodeParam(p, raw, escapeCookie)
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			name := decodePercent(pair.name)
			switch {
			case !isToken(name):
				return badArgument(p.Arg, "would be the cookie %q, which is no name of a cookie", plain.Line(name, 100))
			case name != p.Name && own[name]:
				return badArgument(p.Arg, "has the member %q, which is another cookie", plain.Line(name, 100))
			}
			o.cookies = append(o.cookies, field{name: name, value: pair.value, argument: p.Arg})
		}
	}
	return nil
}

// baseOrigin returns the scheme and host of a URL.
func baseOrigin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// bindingFor returns the binding of a definition and the base URL of its requests. Its errors are about the skill.
func bindingFor(server tool.Server, d *tool.Definition) (b *openapi.Binding, base string, err error) {
	if b, err = openapi.ReadBinding(d); err != nil {
		return nil, "", err
	}
	base, err = baseURLFor(b, server)
	return b, base, err
}

// baseURLFor returns the base URL of a binding's requests: the operator's, or else the document's. A definition may come from a document that
// the skill no longer has. So the document's base URL must have an origin that the current document names, or the skill's secrets
// could go elsewhere.
func baseURLFor(b *openapi.Binding, server tool.Server) (string, error) {
	switch {
	case server.URL != "" || b.Base == "":
		return server.URL, nil
	case server.API == nil || server.Transport != tool.OpenAPI:
		return "", errOtherDocument
	}
	origins := server.API.Origins
	if server.API.Spec != "" {
		spec, err := url.Parse(server.API.Spec)
		if err != nil {
			return "", errOtherDocument
		}
		origins = []string{setting.OriginOf(spec)}
	}
	base, err := url.Parse(b.Base)
	if err != nil || !slices.Contains(origins, setting.OriginOf(base)) {
		return "", errOtherDocument
	}
	return b.Base, nil
}

var errOtherDocument = errors.New("the definition is of another document, which names another server than that of the skill does: have its tools listed anew")

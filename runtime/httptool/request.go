package httptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// outboundRequest is a request before it is sent. What is secret of it is known to be.
type outboundRequest struct {
	method  string
	base    *url.URL // without what comes after its path
	path    string   // all of it, escaped
	query   []field  // escaped
	header  []field  // in the order in which they are shown
	cookies []field  // escaped
	host    string   // Host; empty: that of the URL
	body    []byte
	media   string // the body's Content-Type; empty: there is no body
	secrets []string
}

// field is a name and a value of a query, a header or a cookie.
type field struct {
	name, value string
	secret      bool
	argument    string // that it comes from; empty: none
}

// arguments are the members of a call's arguments, and which of them were used.
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

// take returns an argument; false: it was not given. Outside of JSON, null is nothing.
func (a *arguments) take(name string) (json.RawMessage, bool) {
	raw, ok := a.values[name]
	a.used[name] = true
	return raw, ok
}

func (a *arguments) takeValue(name string) (json.RawMessage, bool) {
	raw, ok := a.take(name)
	return raw, ok && string(bytes.TrimSpace(raw)) != "null"
}

// unused names an argument that is for nothing.
func (a *arguments) unused() (string, bool) {
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

// resolve makes a request of arguments. It is about the arguments what it fails for with an *argumentError; else about the definition or
// the skill. All arguments have to be for something, unless more is set.
func resolve(b *Binding, base string, raw json.RawMessage, more bool) (*outboundRequest, error) {
	o := &outboundRequest{method: strings.ToUpper(b.Method)}
	if !token(o.method) || o.method == http.MethodConnect || o.method == http.MethodTrace {
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
	for _, step := range []func(*Binding, *arguments) error{o.putPath, o.putQuery, o.putHeader, o.putCookies, o.putBody} {
		if err := step(b, args); err != nil {
			return nil, err
		}
	}
	if name, found := args.unused(); found && !more {
		return nil, badArgument(name, "is none of this tool's")
	}
	return o, nil
}

// parseBase reads a base URL: its path is a prefix of all paths.
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
	case traverses(u.EscapedPath()):
		return nil, errors.New("the base URL's path has . or .. in it")
	}
	host, err := idna.Lookup.ToASCII(u.Hostname())
	if err != nil && !isASCII(u.Hostname()) { // also IP addresses and names with underscores are hosts
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

func (o *outboundRequest) putPath(b *Binding, args *arguments) error {
	values := map[string]string{}
	for i := range b.Params {
		p := &b.Params[i]
		if p.In != InPath {
			continue
		}
		text, err := pathValue(p, args)
		if err != nil {
			return err
		}
		values[p.Name] = text
	}
	template, query, hasQuery := strings.Cut(b.Path, "?")
	if hasQuery {
		for text := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(text, "=")
			o.query = append(o.query, field{name: escapeAll(decoded(name)), value: escapeAll(decoded(value))})
		}
	}
	path, err := fill(template, values)
	if err != nil {
		return err
	}
	prefix := strings.TrimSuffix(o.base.EscapedPath(), "/")
	if path != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	o.path = prefix + path
	if traverses(path) {
		return errors.New("the path has . or .. in it")
	}
	return nil
}

// fill puts values in a template. What is in braces within a value stays as it is.
func fill(template string, values map[string]string) (string, error) {
	var b strings.Builder
	for rest := template; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		b.WriteString(escapeLiteral(literal))
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		value, known := values[name]
		if !closed || !known {
			return "", fmt.Errorf("the path has {%s}, which is none of its parameters", plain.Line(name, 100))
		}
		b.WriteString(value)
		if b.Len() > longestAddress {
			return "", badArgument(name, "makes a path of more than %d bytes", longestAddress)
		}
		rest = after
	}
	return b.String(), nil
}

func pathValue(p *Param, args *arguments) (string, error) {
	raw, ok := args.takeValue(p.Arg)
	if !ok {
		return "", badArgument(p.Arg, "is required: it is part of the path")
	}
	var v styled
	op, known := operatorOf(p.Style)
	if p.JSON {
		v = styled{kind: '"', text: string(raw)}
	} else {
		if !known {
			return "", fmt.Errorf("style %q is none of a path", plain.Line(p.Style, 40))
		}
		var err error
		if v, err = flat(p.Arg, raw); err != nil {
			return "", err
		}
	}
	if v.empty() {
		return "", badArgument(p.Arg, "is empty, which a part of a path cannot be")
	}
	for _, text := range v.texts() {
		if text == "" || traverses(text) {
			return "", badArgument(p.Arg, `is empty, or has "." or ".." as a part of a path: it would lead to another resource`)
		}
	}
	return op.expand(p.Name, v, p.Explode, escapeAll), nil
}

func (o *outboundRequest) putQuery(b *Binding, args *arguments) error {
	length := 0
	own := map[string]bool{} // the names of pairs, which no member of an exploded object may take
	for _, f := range o.query {
		own[f.name] = true
	}
	for i := range b.Params {
		if p := &b.Params[i]; p.In == InQuery {
			own[escapeAll(p.Name)] = true
		}
	}
	for i := range b.Params {
		p := &b.Params[i]
		if p.In != InQuery {
			continue
		}
		raw, ok := args.takeValue(p.Arg)
		if !ok {
			continue
		}
		pairs, err := paramPairs(p, raw, escapeQuery(p))
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			if pair.name != escapeAll(p.Name) && own[pair.name] {
				return badArgument(p.Arg, "has the member %q, which is another parameter of the query", plain.Line(decoded(pair.name), 100))
			}
			o.query = append(o.query, field{name: pair.name, value: pair.value, argument: p.Arg})
			if length += len(pair.name) + len(pair.value) + 2; length > longestAddress {
				return badArgument(p.Arg, "makes a query of more than %d bytes", longestAddress)
			}
		}
	}
	return nil
}

// longestAddress bounds a path, and again a query, in bytes: what is longer no server takes.
const longestAddress = 256 << 10

func escapeQuery(p *Param) func(string) string {
	if p.AllowReserved {
		return escapeReserved
	}
	return escapeAll
}

func paramPairs(p *Param, raw json.RawMessage, escape func(string) string) ([]pair, error) {
	if p.JSON {
		return []pair{{escapeAll(p.Name), escape(string(raw))}}, nil
	}
	return queryPairs(p.Arg, p.Name, p.Style, p.Explode, raw, escape)
}

func (o *outboundRequest) putHeader(b *Binding, args *arguments) error {
	accept := b.Accept
	if accept == "" {
		accept = "*/*"
	}
	if err := o.setHeader(field{name: "Accept", value: accept}); err != nil {
		return err
	}
	for i := range b.Params {
		if p := &b.Params[i]; p.In == InHeader {
			if err := o.putHeaderParam(p, args); err != nil {
				return err
			}
		}
	}
	for _, f := range b.Fixed {
		if !token(f.Name) || tool.ReservedHeader(f.Name) {
			return fmt.Errorf("the endpoint's header %s is none that it may set", plain.Line(f.Name, 100))
		}
		if problem := tool.HeaderValueProblem(f.Value); problem != "" {
			return fmt.Errorf("the value of the endpoint's header %s %s", plain.Line(f.Name, 100), problem)
		}
		if err := o.setHeader(field{name: f.Name, value: f.Value}); err != nil {
			return err
		}
	}
	return nil
}

func (o *outboundRequest) putHeaderParam(p *Param, args *arguments) error {
	raw, ok := args.takeValue(p.Arg)
	if !ok {
		return nil
	}
	text := string(raw)
	if !p.JSON {
		v, err := flat(p.Arg, raw)
		if err != nil {
			return err
		}
		text = operator{separator: ","}.expand(p.Name, v, p.Explode, func(s string) string { return s })
	}
	if problem := tool.HeaderValueProblem(text); problem != "" {
		return badArgument(p.Arg, "%s", problem)
	}
	if !token(p.Name) || tool.ReservedHeader(p.Name) {
		return badArgument(p.Arg, "would be the header %s, which no argument sets", plain.Line(p.Name, 100))
	}
	return o.setHeader(field{name: p.Name, value: text, argument: p.Arg})
}

// setHeader sets a header field in the place of another of its name, which may not be an argument's.
func (o *outboundRequest) setHeader(f field) error {
	f.name = textproto.CanonicalMIMEHeaderKey(f.name)
	for i := range o.header {
		if o.header[i].name != f.name {
			continue
		}
		if o.header[i].argument != "" {
			return notTheirs(o.header[i].argument, "header", f.name)
		}
		o.header = slices.Delete(o.header, i, i+1)
		break
	}
	o.header = append(o.header, f)
	return nil
}

// notTheirs is the error of an argument that would be sent as what the skill sets itself.
func notTheirs(argument, place, name string) error {
	return badArgument(argument, "would be the %s %s, which the skill sets itself", place, plain.Line(name, 100))
}

func (o *outboundRequest) putCookies(b *Binding, args *arguments) error {
	own := map[string]bool{}
	for i := range b.Params {
		if p := &b.Params[i]; p.In == InCookie {
			own[p.Name] = true
		}
	}
	for i := range b.Params {
		p := &b.Params[i]
		if p.In != InCookie {
			continue
		}
		raw, ok := args.takeValue(p.Arg)
		if !ok {
			continue
		}
		pairs, err := paramPairs(p, raw, escapeCookie)
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			name := decoded(pair.name)
			switch {
			case !token(name):
				return badArgument(p.Arg, "would be the cookie %q, which is no name of a cookie", plain.Line(name, 100))
			case name != p.Name && own[name]:
				return badArgument(p.Arg, "has the member %q, which is another cookie", plain.Line(name, 100))
			}
			o.cookies = append(o.cookies, field{name: name, value: pair.value, argument: p.Arg})
		}
	}
	return nil
}

// origin is the base URL's scheme, host and port.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// bindOf is what a call is made by: the binding of its definition, and the base URL. It fails with an error that is about the skill.
func bindOf(server tool.Server, d *tool.Definition) (b *Binding, base string, err error) {
	if b, err = bindingOf(d); err != nil {
		return nil, "", err
	}
	base, err = b.baseOf(server)
	return b, base, err
}

// baseOf is the base URL that a request of a binding has. Without the operator's it is that of a document, which a skill may not have any more
// while its definitions are still known: what is secret of the skill goes only to where the present document may send it.
func (b *Binding) baseOf(server tool.Server) (string, error) {
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
		origins = []string{originOf(spec)}
	}
	base, err := url.Parse(b.Base)
	if err != nil || !slices.Contains(origins, originOf(base)) {
		return "", errOtherDocument
	}
	return b.Base, nil
}

var errOtherDocument = errors.New("the definition is of another document, which names another server than that of the skill does: have its tools listed anew")

package httptool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Member is the member of a tool's definition that has its [Binding]. It is part of the pin, and not told to agents.
const Member = tool.BindingMember

// Binding is how a tool's arguments become an HTTP request, and its answer a result.
type Binding struct {
	Method string `json:"method"` // "GET"
	// Base is the base URL, where it is the document's word and not the operator's. Empty: the skill's.
	Base string `json:"base,omitempty"`
	// Path is below the base URL. {name} stands for the path parameter of that name.
	Path   string      `json:"path"`
	Params []Param     `json:"params,omitempty"` // in the order they are written
	Body   *Body       `json:"body,omitempty"`   // nil: none
	Fixed  []FixedHead `json:"headers,omitempty"`
	Accept string      `json:"accept,omitempty"` // default */*
	// Select is a jq program; what it makes of a JSON answer is the result.
	Select string `json:"select,omitempty"`
	// Preview reads the present state of what the call would change: a GET with no parameters but those of the path, and
	// those that the call has too. Nil: none.
	Preview *Binding `json:"preview,omitempty"`
}

// FixedHead is a header field that is always the same.
type FixedHead struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// The places of parameters.
const (
	InPath   = "path"
	InQuery  = "query"
	InHeader = "header"
	InCookie = "cookie"
	InBody   = "body"
)

// The styles of parameters (OpenAPI 3, style values).
const (
	StyleSimple         = "simple"         // path, header: a,b,c
	StyleLabel          = "label"          // path: .a.b.c
	StyleMatrix         = "matrix"         // path: ;name=a,b,c
	StyleForm           = "form"           // query, cookie, form bodies: name=a&name=b, or name=a,b
	StyleSpaceDelimited = "spaceDelimited" // query: name=a%20b
	StylePipeDelimited  = "pipeDelimited"  // query: name=a%7Cb
	StyleDeepObject     = "deepObject"     // query: name[key]=value
)

// Param is a parameter outside of the body.
type Param struct {
	Arg     string `json:"arg"`  // the argument
	Name    string `json:"name"` // as the API knows it
	In      string `json:"in"`   // InPath, InQuery, InHeader or InCookie
	Style   string `json:"style"`
	Explode bool   `json:"explode,omitempty"`
	// AllowReserved leaves the characters of RFC 3986, section 2.2, as they are, but those that would end the query or one of its pairs (#, & and +).
	AllowReserved bool `json:"allow_reserved,omitempty"`
	// JSON: the value is written as JSON (a parameter with content application/json); Style is of no account.
	JSON bool `json:"json,omitempty"`
}

// The ways bodies are written.
const (
	BodyJSON      = "json"
	BodyForm      = "form"      // application/x-www-form-urlencoded
	BodyMultipart = "multipart" // multipart/form-data (RFC 7578)
	BodyText      = "text"      // the string, in UTF-8
	BodyBytes     = "bytes"     // the bytes of a string in base64 (RFC 4648, section 4)
)

// Body is a request's body.
type Body struct {
	Kind  string `json:"kind"`
	Media string `json:"media"` // its Content-Type; of multipart without the boundary
	// Arg is the argument that is all of the body. Empty: it is made of Fields.
	Arg    string  `json:"arg,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	// Required: a JSON body is sent also when no argument is for it, as {}.
	Required bool `json:"required,omitempty"`
}

// Field is a member of a JSON body, a pair of a form, or a part of a multipart body.
type Field struct {
	Arg  string `json:"arg"`
	Name string `json:"name"`
	// Of forms: how arrays and objects are written; of parts arrays are one part an element.
	Style   string `json:"style,omitempty"`
	Explode bool   `json:"explode,omitempty"`
	// File: the argument is a string in base64, and its bytes are a part with a file name. Media is the part's content type; empty:
	// text/plain for text, application/json for objects, application/octet-stream for files.
	File  bool   `json:"file,omitempty"`
	Media string `json:"media,omitempty"`
}

var errNoBinding = errors.New("its definition has no HTTP binding")

// bindingOf reads the binding of a definition.
func bindingOf(d *tool.Definition) (*Binding, error) {
	if d == nil {
		return nil, errNoBinding
	}
	var members struct {
		Binding *Binding `json:"x-holdpoint-http"`
	}
	if err := json.Unmarshal(d.Raw(), &members); err != nil {
		return nil, fmt.Errorf("read the HTTP binding of %q: %w", d.Name, err)
	}
	if members.Binding == nil {
		return nil, fmt.Errorf("%q: %w", d.Name, errNoBinding)
	}
	return members.Binding, nil
}

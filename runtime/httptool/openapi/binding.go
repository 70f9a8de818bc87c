package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Binding says how the arguments of a tool become an HTTP request, and the answer a result. It is the member [tool.BindingMember] of a
// definition.
type Binding struct {
	Method string `json:"method"` // "GET"
	// Base is the base URL if the document names it and not the operator. Empty: the skill's.
	Base string `json:"base,omitempty"`
	// Path is appended to the base URL. {name} stands for the path parameter of that name.
	Path   string        `json:"path"`
	Params []Param       `json:"params,omitempty"` // in the order in which they are encoded
	Body   *Body         `json:"body,omitempty"`   // nil: no body
	Fixed  []FixedHeader `json:"headers,omitempty"`
	Accept string        `json:"accept,omitempty"` // default */*
	// Select is a jq program whose output replaces a JSON answer.
	Select string `json:"select,omitempty"`
	// Preview reads the current state of the resource that the call would change: a GET whose parameters are all parameters of
	// the call. Nil: there is none.
	Preview *Binding `json:"preview,omitempty"`
}

// FixedHeader is a header field that every request has.
type FixedHeader struct {
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

// Param is a parameter outside the body.
type Param struct {
	Arg     string `json:"arg"`  // name of the argument
	Name    string `json:"name"` // name in the API
	In      string `json:"in"`   // InPath, InQuery, InHeader or InCookie
	Style   string `json:"style"`
	Explode bool   `json:"explode,omitempty"`
	// AllowReserved keeps reserved characters (RFC 3986, section 2.2), except those that would end the query or one of its pairs (#, & and +).
	AllowReserved bool `json:"allow_reserved,omitempty"`
	// JSON: the value is encoded as JSON (a parameter with content application/json), and Style has no effect.
	JSON bool `json:"json,omitempty"`
}

// The kinds of bodies.
const (
	BodyJSON      = "json"
	BodyForm      = "form"      // application/x-www-form-urlencoded
	BodyMultipart = "multipart" // multipart/form-data (RFC 7578)
	BodyText      = "text"      // the string, in UTF-8
	BodyBytes     = "bytes"     // the bytes that a base64 string holds (RFC 4648, section 4)
)

// Body is a request's body.
type Body struct {
	Kind  string `json:"kind"`
	Media string `json:"media"` // Content-Type; multipart without the boundary
	// Arg is the argument that is the whole body. Empty: the body consists of Fields.
	Arg    string  `json:"arg,omitempty"`
	Fields []Field `json:"fields,omitempty"`
	// Required: a JSON body without arguments is sent as {}.
	Required bool `json:"required,omitempty"`
}

// Field is a member of a JSON body, a pair of a form, or a part of a multipart body.
type Field struct {
	Arg  string `json:"arg"`
	Name string `json:"name"`
	// Style and Explode encode the arrays and objects of forms. In multipart bodies each element of an array is a part.
	Style   string `json:"style,omitempty"`
	Explode bool   `json:"explode,omitempty"`
	// File: the argument is a base64 string, and its bytes are a part with a file name. Media is the content type of the part. Empty:
	// text/plain for text, application/json for objects, application/octet-stream for files.
	File  bool   `json:"file,omitempty"`
	Media string `json:"media,omitempty"`
}

var errNoBinding = errors.New("its definition has no HTTP binding")

// ReadBinding reads the binding of a definition. A definition without one is an error.
func ReadBinding(d *tool.Definition) (*Binding, error) {
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

// IsSafeMethod reports whether a method of HTTP is safe (RFC 9110, section 9.2.1).
func IsSafeMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

package httptool_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestStyles is the table "Style Examples" of OpenAPI 3.1.1 with its example values.
func TestStyles(t *testing.T) {
	t.Parallel()
	const (
		empty  = `""`
		text   = `"blue"`
		list   = `["blue","black","brown"]`
		object = `{"R":100,"G":200,"B":150}`
	)
	for _, test := range []struct {
		style   string
		explode bool
		in      string
		value   string
		want    string
	}{
		{"matrix", false, "path", text, ";color=blue"},
		{"matrix", false, "path", list, ";color=blue,black,brown"},
		{"matrix", false, "path", object, ";color=R,100,G,200,B,150"},
		{"matrix", true, "path", text, ";color=blue"},
		{"matrix", true, "path", list, ";color=blue;color=black;color=brown"},
		{"matrix", true, "path", object, ";R=100;G=200;B=150"},
		{"label", false, "path", text, ".blue"},
		{"label", false, "path", list, ".blue,black,brown"},
		{"label", false, "path", object, ".R,100,G,200,B,150"},
		{"label", true, "path", text, ".blue"},
		{"label", true, "path", list, ".blue.black.brown"},
		{"label", true, "path", object, ".R=100.G=200.B=150"},
		{"simple", false, "path", text, "blue"},
		{"simple", false, "path", list, "blue,black,brown"},
		{"simple", false, "path", object, "R,100,G,200,B,150"},
		{"simple", true, "path", list, "blue,black,brown"},
		{"simple", true, "path", object, "R=100,G=200,B=150"},
		{"simple", false, "header", empty, ""},
		{"simple", false, "header", text, "blue"},
		{"simple", false, "header", list, "blue,black,brown"},
		{"simple", false, "header", object, "R,100,G,200,B,150"},
		{"simple", true, "header", object, "R=100,G=200,B=150"},
		{"form", false, "query", empty, "color="},
		{"form", false, "query", text, "color=blue"},
		{"form", false, "query", list, "color=blue,black,brown"},
		{"form", false, "query", object, "color=R,100,G,200,B,150"},
		{"form", true, "query", empty, "color="},
		{"form", true, "query", list, "color=blue&color=black&color=brown"},
		{"form", true, "query", object, "R=100&G=200&B=150"},
		{"spaceDelimited", false, "query", list, "color=blue%20black%20brown"},
		{"spaceDelimited", false, "query", object, "color=R%20100%20G%20200%20B%20150"},
		{"pipeDelimited", false, "query", list, "color=blue%7Cblack%7Cbrown"},
		{"pipeDelimited", false, "query", object, "color=R%7C100%7CG%7C200%7CB%7C150"},
		{"deepObject", true, "query", object, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"},
		{"deepObject", true, "query", `{"a":{"b":[1,2]}}`, "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D=2"},
		{"form", false, "cookie", text, "color=blue"},
		{"form", false, "cookie", list, "color=blue,black,brown"},
		{"form", true, "cookie", list, "color=blue; color=black; color=brown"},
		{"form", false, "cookie", object, "color=R,100,G,200,B,150"},
		{"form", true, "cookie", object, "R=100; G=200; B=150"},
		// More than the table has
		{"form", true, "query", `[]`, ""},
		{"form", true, "query", `null`, ""},
		{"form", true, "query", `[9007199254740993,1.50,true,null]`, "color=9007199254740993&color=1.50&color=true&color=null"},
		{"simple", false, "path", `"a/b%2F?#c d"`, "a%2Fb%252F%3F%23c%20d"},
		{"form", true, "query", `"a&b=c#d+e f"`, "color=a%26b%3Dc%23d%2Be%20f"},
		{"form", false, "query", `["a,b","c"]`, "color=a%2Cb,c"},
		{"simple", false, "path", `"Ünï"`, "%C3%9Cn%C3%AF"},
	} {
		name := strings.Join([]string{test.in, test.style, map[bool]string{true: "explode"}[test.explode], test.value}, " ")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openapi.Param{Arg: "value", Name: "color", In: test.in, Style: test.style, Explode: test.explode}
			path, where := "/x", func(r received) string { _, query, _ := strings.Cut(r.uri, "?"); return query }
			switch test.in {
			case "path":
				path, where = "/x/{color}", func(r received) string { return strings.TrimPrefix(r.uri, "/v1/x/") }
			case "header":
				where = func(r received) string { return r.header.Get("Color") }
			case "cookie":
				where = func(r received) string { return r.header.Get("Cookie") }
			}
			if got := where(sendCall(t, getBinding(path, p), `{"value":`+test.value+`}`)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAllowReserved(t *testing.T) {
	t.Parallel()
	p := newParam("q", openapi.InQuery)
	p.AllowReserved = true
	if got := sendCall(t, getBinding("/x", p), `{"q":"a/b?c=[d]:@!$'()*,;&e=f#g+h%41 i"}`).uri; got != "/v1/x?q=a/b?c=[d]:@!$'()*,;%26e=f%23g%2Bh%2541%20i" {
		t.Errorf("got %q", got)
	}
}

func TestJSONParameter(t *testing.T) {
	t.Parallel()
	p := newParam("filter", openapi.InQuery)
	p.JSON = true
	if got := sendCall(t, getBinding("/x", p), `{"filter":{"a":[1,9007199254740993]}}`).uri; got != "/v1/x?filter=%7B%22a%22%3A%5B1%2C9007199254740993%5D%7D" {
		t.Errorf("got %q", got)
	}
}

// TestJSONBody: arguments are sent byte for byte.
func TestJSONBody(t *testing.T) {
	t.Parallel()
	body := openapi.Body{Kind: openapi.BodyJSON, Media: "application/json", Fields: []openapi.Field{
		{Arg: "n", Name: "number"}, {Arg: "s_body", Name: "s\"x"}, {Arg: "none", Name: "none"}, {Arg: "o", Name: "o"},
	}}
	got := sendCall(t, postBinding("/x", body), `{"o":{"z":1e2,"a":9007199254740993},"n":1.10,"s_body":"\u00fc","none":null}`)
	if want := `{"number":1.10,"s\"x":"\u00fc","none":null,"o":{"z":1e2,"a":9007199254740993}}`; got.body != want || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s of %s, want %s", got.body, got.header.Get("Content-Type"), want)
	}
	whole := openapi.Body{Kind: openapi.BodyJSON, Media: "application/vnd.api+json", Arg: "body"}
	if got := sendCall(t, postBinding("/x", whole), `{"body":[1,{"a":12345678901234567890}]}`); got.body != `[1,{"a":12345678901234567890}]` || got.header.Get("Content-Type") != "application/vnd.api+json" {
		t.Errorf("%s of %s", got.body, got.header.Get("Content-Type"))
	}
	if got := sendCall(t, postBinding("/x", body), `{}`); got.body != "" || got.header.Get("Content-Type") != "" {
		t.Errorf("no argument for the body: %q of %q", got.body, got.header.Get("Content-Type"))
	}
	body.Required = true
	if got := sendCall(t, postBinding("/x", body), `{}`); got.body != "{}" {
		t.Errorf("no argument for a required body: %q", got.body)
	}
}

func TestFormBody(t *testing.T) {
	t.Parallel()
	body := openapi.Body{Kind: openapi.BodyForm, Media: "application/x-www-form-urlencoded", Fields: []openapi.Field{
		{Arg: "a", Name: "a"}, {Arg: "list", Name: "list[]"}, {Arg: "meta", Name: "meta", Style: openapi.StyleDeepObject, Explode: true}, {Arg: "o", Name: "o"},
	}}
	got := sendCall(t, postBinding("/x", body), `{"a":"x&b=c d","list":[1,2],"meta":{"k":"v"},"o":{"k":[1]}}`)
	want := "a=x%26b%3Dc%20d&list%5B%5D=1&list%5B%5D=2&meta%5Bk%5D=v&o=%7B%22k%22%3A%5B1%5D%7D"
	if got.body != want || got.header.Get("Content-Type") != body.Media {
		t.Errorf("%s of %s", got.body, got.header.Get("Content-Type"))
	}
}

func TestMultipartBody(t *testing.T) {
	t.Parallel()
	body := openapi.Body{Kind: openapi.BodyMultipart, Media: "multipart/form-data", Fields: []openapi.Field{
		{Arg: "title", Name: "title"}, {Arg: "files", Name: "files", File: true, Media: "image/png"}, {Arg: "o", Name: "o"},
	}}
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s := newSource(t, httptool.Config{})
	for range 2 {
		callTool(t, s, skillAt(a.URL), postBinding("/x", body), `{"title":"T","files":["AAE=","/w=="],"o":{"k":1}}`)
	}
	first, second := a.requests()[0], a.requests()[1]
	if first.body != second.body || first.header.Get("Content-Type") != second.header.Get("Content-Type") {
		t.Error("the same call is not the same bytes")
	}
	r := &http.Request{Method: http.MethodPost, Header: first.header, Body: http.NoBody}
	r.Body = readCloser(first.body)
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		t.Fatal(err)
	}
	if r.FormValue("title") != "T" || r.FormValue("o") != `{"k":1}` || len(r.MultipartForm.File["files"]) != 2 ||
		r.MultipartForm.File["files"][0].Header.Get("Content-Type") != "image/png" || r.MultipartForm.File["files"][0].Size != 2 {
		t.Errorf("%q", first.body)
	}
}

func TestTextAndBytes(t *testing.T) {
	t.Parallel()
	if got := sendCall(t, postBinding("/x", openapi.Body{Kind: openapi.BodyText, Media: "text/markdown", Arg: "body"}), `{"body":"# Ünï\r\n"}`); got.body != "# Ünï\r\n" || got.header.Get("Content-Type") != "text/markdown" {
		t.Errorf("%q", got.body)
	}
	raw := openapi.Body{Kind: openapi.BodyBytes, Media: "image/png", Arg: "body"}
	if got := sendCall(t, postBinding("/x", raw), `{"body":"AAH/"}`); got.body != "\x00\x01\xff" {
		t.Errorf("%q", got.body)
	}
	if why := refuseArguments(t, postBinding("/x", raw), `{"body":"no base64!"}`); !strings.Contains(why, `"body"`) || !strings.Contains(why, "base64") {
		t.Error(why)
	}
}

// TestWrongArguments: errors name the argument and the expected value.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	b := getBinding("/x/{id}", newParam("id", openapi.InPath), newParam("q", openapi.InQuery))
	for arguments, want := range map[string]string{
		`{"q":1}`:                      `argument "id": is required`,
		`{"id":null}`:                  `argument "id": is required`,
		`{"id":[]}`:                    `argument "id": must not be empty`,
		`{"id":""}`:                    `argument "id": must not be empty`,
		`{"id":1,"q":{"a":{"b":1}}}`:   `argument "q": must be an object of strings`,
		`{"id":1,"q":[[1]]}`:           `argument "q": must be a list of strings`,
		`{"id":1,"other":1}`:           `argument "other": is none of this tool's`,
		`{"id":{"a":[]}}`:              `argument "id": must be an object of`,
		"{\"id\":1,\"z\\u202e\\n\":1}": `argument "z\\u202e\\n"`,
	} {
		if why := refuseArguments(t, b, arguments); !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", arguments, why, want)
		}
	}
}

// TestFixedHeaders: either all fixed headers are sent, or no request is.
func TestFixedHeaders(t *testing.T) {
	t.Parallel()
	b := getBinding("/x")
	b.Fixed = []openapi.FixedHeader{{Name: "X-Mode", Value: "dry run"}}
	if got := sendCall(t, b, `{}`).header.Get("X-Mode"); got != "dry run" {
		t.Errorf("X-Mode %q", got)
	}
	for want, f := range map[string]openapi.FixedHeader{
		"the value of the endpoint's header X-Mode has a line break, a control": {Name: "X-Mode", Value: "dry\trun"},
		"the value of the endpoint's header X-Who has a line break":             {Name: "X-Who", Value: "Zürich"},
		"the endpoint's header X-Real-Ip is none that it may set":               {Name: "X-Real-Ip", Value: "10.0.0.1"},
	} {
		a := newAPI(t, nil)
		b.Fixed[0] = f
		failure := failCall(t, newSource(t, httptool.Config{}), skillAt(a.URL), newRequest(defineTool(t, b, nil), `{}`))
		if failure.Effect != tool.EffectNone || !strings.Contains(failure.Message, want) || len(a.requests()) != 0 {
			t.Errorf("%+v: %+v", f, failure)
		}
	}
}

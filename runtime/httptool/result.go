package httptool

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	// maxErrorBody bounds the text of an error answer, in bytes.
	maxErrorBody = 32 << 10
	// maxUnaskedJSON bounds the JSON that becomes structuredContent although the tool has no output schema, in bytes.
	maxUnaskedJSON = 256 << 10
)

// buildResult turns a reply into a result.
func (x *exchange) buildResult(got *reply) (tool.Result, *tool.Failure) {
	media, parameters, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	if got.status < 200 || got.status > 299 {
		return x.buildErrorResult(got, media, parameters["charset"]), nil
	}
	var blocks []block
	var structured json.RawMessage
	shown := x.maskMedia(media)
	switch {
	case len(got.body) == 0:
		blocks = []block{textBlock(x.describeEmpty(got))}
	case openapi.IsJSON(media):
		var failure *tool.Failure
		if blocks, structured, failure = x.convertJSON(got, parameters["charset"]); failure != nil {
			return tool.Result{}, failure
		}
	case strings.HasPrefix(shown, "image/") && shown != "image/svg+xml" && !got.cut:
		blocks = []block{{Type: "image", Data: base64.StdEncoding.EncodeToString(x.maskBytes(got.body)), MimeType: shown}}
	case strings.HasPrefix(shown, "audio/") && !got.cut:
		blocks = []block{{Type: "audio", Data: base64.StdEncoding.EncodeToString(x.maskBytes(got.body)), MimeType: shown}}
	default:
		blocks = x.convertOther(got, media, parameters["charset"])
	}
	if got.cut {
		blocks = append(blocks, textBlock(fmt.Sprintf("[The answer was longer than %d bytes: what came after them is missing.]", x.limit)))
	}
	for _, line := range x.locationLines(got) {
		blocks = append(blocks, textBlock(line))
	}
	return tool.Result{Raw: resultJSON(blocks, structured, false)}, nil
}

// describeEmpty describes a reply without a body.
func (x *exchange) describeEmpty(got *reply) string {
	lines := []string{strings.TrimSpace(fmt.Sprintf("HTTP %d %s", got.status, http.StatusText(got.status)))}
	for _, name := range []string{"Content-Type", "Content-Length", "Last-Modified", "ETag"} {
		if value := got.header.Get(name); value != "" && got.status == http.StatusOK {
			lines = append(lines, name+": "+plain.Line(x.maskText(value), 300))
		}
	}
	return strings.Join(lines, "\n")
}

// buildErrorResult returns the result of a reply whose status is not 2xx. After a server error the effect is unknown.
func (x *exchange) buildErrorResult(got *reply, media, charset string) tool.Result {
	text := strings.TrimSpace(x.errorText(got, media, charset))
	if text == "" {
		text = http.StatusText(got.status)
	}
	lines := []string{strings.TrimSuffix(fmt.Sprintf("Upstream API returned %d: %s", got.status, text), ": ")}
	lines = append(lines, x.locationLines(got)...)
	if wait := got.header.Get("Retry-After"); wait != "" {
		lines = append(lines, "Retry-After: "+plain.Line(x.maskText(wait), 100))
	}
	if got.note != "" {
		lines = append(lines, got.note)
	}
	effect := tool.EffectNone
	if got.status >= 500 || got.status < 400 && !openapi.IsSafeMethod(x.request.method) { // many servers redirect after a POST succeeded
		effect = tool.EffectPossible
		lines = append(lines, "It may have been executed: do not repeat it blindly.")
	}
	r := errorResult(strings.Join(lines, "\n"), effect)
	r.RetryAfter = retryAfter(got, x.source.config.Now())
	return r
}

// locationLines returns the Location of a reply, unless it contains a secret.
func (x *exchange) locationLines(got *reply) []string {
	text := got.header.Get("Location")
	if text == "" || x.hasSecret(text) {
		return nil
	}
	return []string{"Location: " + plain.Line(text, 2000)}
}

// errorText returns the body of an error reply, bounded.
func (x *exchange) errorText(got *reply, media, charset string) string {
	text, ok := x.readText(got.body, media, charset)
	if !ok {
		return fmt.Sprintf("(%d bytes of %s)", len(got.body), plain.Line(cmp.Or(x.maskMedia(media), "an unknown type"), 100))
	}
	if compact, err := compactJSON([]byte(text)); err == nil && openapi.IsJSON(media) {
		text = string(compact)
	}
	if len(text) > maxErrorBody {
		text = string(tool.WholeCharacters([]byte(text[:maxErrorBody]))) + fmt.Sprintf("\n[The answer was longer than %d bytes: what came after them is missing.]", maxErrorBody)
	}
	return text
}

// convertJSON converts a reply with a JSON content type to text and, if it is complete and valid, to structured content: an object, in
// which any other value is the member result. The output of a jq program replaces both.
func (x *exchange) convertJSON(got *reply, charset string) ([]block, json.RawMessage, *tool.Failure) {
	text, _ := x.readText(got.body, "application/json", charset)
	compact, err := compactJSON([]byte(text))
	switch {
	case got.cut && x.hasOutputSchema():
		f := protocolFailure(fmt.Sprintf("%s: the answer is longer than %d bytes, and the tool's output schema wants it whole", x.describeRequest(), x.limit), nil)
		f.Raw = tool.Evidence([]byte(text))
		return nil, nil, f
	case got.cut:
		return []block{textBlock(text)}, nil, nil
	case err != nil:
		return []block{textBlock(text), textBlock("[The answer says that it is JSON, and is not: " + plain.Line(err.Error(), 200) + "]")}, nil, nil
	case x.binding.Select != "":
		return x.runSelect(compact), nil, nil
	case !x.hasOutputSchema() && len(compact) > maxUnaskedJSON:
		return []block{textBlock(string(compact))}, nil, nil
	}
	structured := json.RawMessage(compact)
	if compact.Kind() != '{' {
		structured = json.RawMessage(`{"result":` + string(compact) + `}`)
	}
	return []block{textBlock(string(compact))}, structured, nil
}

func (x *exchange) hasOutputSchema() bool {
	return x.call.Definition != nil && len(x.call.Definition.OutputSchema) > 0
}

// compactJSON removes insignificant white space from JSON and changes nothing else.
func compactJSON(text []byte) (jsontext.Value, error) {
	v := jsontext.Value(bytes.Clone(text))
	err := v.Compact(jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return v, err
}

// convertOther converts a reply of any other type: text to text, bytes to a resource.
func (x *exchange) convertOther(got *reply, media, charset string) []block {
	if text, ok := x.readText(got.body, media, charset); ok {
		return []block{textBlock(text)}
	}
	from := url.URL{Scheme: got.from.Scheme, Host: got.from.Host, Path: got.from.Path, RawPath: got.from.RawPath}
	uri := x.maskText(from.String())
	if x.hasSecret(uri) { // in another notation, after a redirect
		uri = baseOrigin(got.from)
	}
	return []block{{Type: "resource", Resource: &resource{
		URI: uri, MimeType: cmp.Or(x.maskMedia(media), "application/octet-stream"), Blob: base64.StdEncoding.EncodeToString(x.maskBytes(got.body)),
	}}}
}

// block is one element of a result's content.
type block struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

type resource struct {
	URI      string `json:"uri"`
	MimeType string `json:"mimeType"`
	Blob     string `json:"blob"`
}

func textBlock(text string) block {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return block{Type: "text", Text: &text}
}

func errorResult(text string, effect tool.Effect) tool.Result {
	r := tool.Result{Raw: resultJSON([]block{textBlock(text)}, nil, true), IsError: true}
	if effect != tool.EffectNone {
		r.Effect = effect
	}
	return r
}

// resultJSON encodes a result of MCP.
func resultJSON(blocks []block, structured json.RawMessage, isError bool) json.RawMessage {
	raw := []byte(`{"content":`)
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(blocks); err != nil { // cannot happen: blocks hold strings
		return errorResult("The answer could not be encoded.", tool.EffectPossible).Raw
	}
	raw = append(raw, bytes.TrimSpace(content.Bytes())...)
	if structured != nil {
		raw = append(append(raw, `,"structuredContent":`...), structured...)
	}
	if isError {
		raw = append(raw, `,"isError":true`...)
	}
	return append(raw, '}')
}

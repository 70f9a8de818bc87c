package httptool

import (
	"bytes"
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
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	// maxErrorBody is how much of an answer that is an error is told.
	maxErrorBody = 32 << 10
	// maxUnasked is how large JSON may be that is told as structuredContent too though the tool has no output schema.
	maxUnasked = 256 << 10
)

// result makes a tool's result of an answer.
func (x *exchange) result(got *reply) (tool.Result, *tool.Failure) {
	media, parameters, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	if got.status < 200 || got.status > 299 {
		return x.refusal(got, media, parameters["charset"]), nil
	}
	var blocks []block
	var structured json.RawMessage
	shown := x.hideMedia(media)
	switch {
	case len(got.body) == 0:
		blocks = []block{textBlock(x.emptyText(got))}
	case isJSON(media):
		var failure *tool.Failure
		if blocks, structured, failure = x.json(got, parameters["charset"]); failure != nil {
			return tool.Result{}, failure
		}
	case isPicture(shown) && !got.cut:
		blocks = []block{{Type: "image", Data: base64.StdEncoding.EncodeToString(x.hideIn(got.body)), MimeType: shown}}
	case strings.HasPrefix(shown, "audio/") && !got.cut:
		blocks = []block{{Type: "audio", Data: base64.StdEncoding.EncodeToString(x.hideIn(got.body)), MimeType: shown}}
	default:
		blocks = x.other(got, media, parameters["charset"])
	}
	if got.cut {
		blocks = append(blocks, textBlock(fmt.Sprintf("[The answer was longer than %d bytes: what came after them is missing.]", x.limit)))
	}
	for _, line := range x.location(got) {
		blocks = append(blocks, textBlock(line))
	}
	return tool.Result{Raw: resultJSON(blocks, structured, false)}, nil
}

// emptyText is what is told of an answer without a body.
func (x *exchange) emptyText(got *reply) string {
	lines := []string{strings.TrimSpace(fmt.Sprintf("HTTP %d %s", got.status, http.StatusText(got.status)))}
	for _, name := range []string{"Content-Type", "Content-Length", "Last-Modified", "ETag"} {
		if value := got.header.Get(name); value != "" && got.status == http.StatusOK {
			lines = append(lines, name+": "+plain.Line(x.hideText(value), 300))
		}
	}
	return strings.Join(lines, "\n")
}

// refusal is the result of an answer whose status is no success. Of one that says that the server broke it is not known what was done.
func (x *exchange) refusal(got *reply, media, charset string) tool.Result {
	text := strings.TrimSpace(x.errorText(got, media, charset))
	if text == "" {
		text = http.StatusText(got.status)
	}
	lines := []string{strings.TrimSuffix(fmt.Sprintf("Upstream API returned %d: %s", got.status, text), ": ")}
	lines = append(lines, x.location(got)...)
	if wait := got.header.Get("Retry-After"); wait != "" {
		lines = append(lines, "Retry-After: "+plain.Line(x.hideText(wait), 100))
	}
	if got.note != "" {
		lines = append(lines, got.note)
	}
	effect := tool.EffectNone
	if got.status >= 500 || got.status < 400 && !tool.ReadOnlyMethod(x.out.method) { // a redirect may well follow what was done
		effect = tool.EffectPossible
		lines = append(lines, "It may have been executed: do not repeat it blindly.")
	}
	r := errorResult(strings.Join(lines, "\n"), effect)
	r.RetryAfter = retryAfter(got, x.source.config.Now())
	return r
}

// location is where the server says that something is, unless a secret is in it.
func (x *exchange) location(got *reply) []string {
	text := got.header.Get("Location")
	if text == "" || x.quotes(text) {
		return nil
	}
	return []string{"Location: " + plain.Line(text, 2000)}
}

// errorText is the body of an error, bounded.
func (x *exchange) errorText(got *reply, media, charset string) string {
	text, ok := x.text(got.body, media, charset)
	if !ok {
		return fmt.Sprintf("(%d bytes of %s)", len(got.body), plain.Line(orElse(x.hideMedia(media), "an unknown type"), 100))
	}
	if compact, err := compacted([]byte(text)); err == nil && isJSON(media) {
		text = string(compact)
	}
	if len(text) > maxErrorBody {
		text = string(tool.WholeCharacters([]byte(text[:maxErrorBody]))) + fmt.Sprintf("\n[The answer was longer than %d bytes: what came after them is missing.]", maxErrorBody)
	}
	return text
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// json is an answer that claims to be JSON: as text, and, if it is JSON and all there, as structured content. A selection takes the place
// of both.
func (x *exchange) json(got *reply, charset string) ([]block, json.RawMessage, *tool.Failure) {
	text, _ := x.text(got.body, "application/json", charset)
	compact, err := compacted([]byte(text))
	switch {
	case got.cut && x.wantsStructure():
		f := protocolFailure(fmt.Sprintf("%s: the answer is longer than %d bytes, and the tool's output schema wants it whole", x.what(), x.limit), nil)
		f.Raw = tool.Evidence([]byte(text))
		return nil, nil, f
	case got.cut:
		return []block{textBlock(text)}, nil, nil
	case err != nil:
		return []block{textBlock(text), textBlock("[The answer says that it is JSON, and is not: " + plain.Line(err.Error(), 200) + "]")}, nil, nil
	case x.binding.Select != "":
		return x.selected(compact), nil, nil
	case !x.wantsStructure() && len(compact) > maxUnasked:
		return []block{textBlock(string(compact))}, nil, nil
	}
	return []block{textBlock(string(compact))}, structure(compact), nil
}

func (x *exchange) wantsStructure() bool {
	return x.request.Definition != nil && len(x.request.Definition.OutputSchema) > 0
}

// structure makes an object of JSON: what is none is the member result.
func structure(compact jsontext.Value) json.RawMessage {
	if compact.Kind() == '{' {
		return json.RawMessage(compact)
	}
	return json.RawMessage(`{"result":` + string(compact) + `}`)
}

// compacted is JSON without insignificant white space, and else as it came.
func compacted(text []byte) (jsontext.Value, error) {
	v := jsontext.Value(bytes.Clone(text))
	err := v.Compact(jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return v, err
}

// other is an answer of any other kind: text as such, bytes as a resource.
func (x *exchange) other(got *reply, media, charset string) []block {
	if text, ok := x.text(got.body, media, charset); ok {
		return []block{textBlock(text)}
	}
	from := url.URL{Scheme: got.from.Scheme, Host: got.from.Host, Path: got.from.Path, RawPath: got.from.RawPath}
	uri := x.hideText(from.String())
	if x.quotes(uri) { // written in another way, where a redirect led to
		uri = origin(got.from)
	}
	return []block{{Type: "resource", Resource: &resource{
		URI: uri, MimeType: orElse(x.hideMedia(media), "application/octet-stream"), Blob: base64.StdEncoding.EncodeToString(x.hideIn(got.body)),
	}}}
}

func isPicture(media string) bool {
	return strings.HasPrefix(media, "image/") && media != "image/svg+xml"
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

// resultJSON writes a result of MCP.
func resultJSON(blocks []block, structured json.RawMessage, isError bool) json.RawMessage {
	raw := []byte(`{"content":`)
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(blocks); err != nil { // they are strings
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

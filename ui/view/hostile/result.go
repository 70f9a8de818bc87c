package hostile

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Result is what a tool answered, block by block.
type Result struct {
	Blocks     []Block
	Structured *Pretty // structuredContent; nil: none
	Folded     bool
	Findings
}

// Block is one element of a result's content. What is not text is described, never drawn.
type Block struct {
	Type   string // text, image, audio, resource_link, resource; other: as it came, pretty-printed
	Text   *Value
	MIME   *Value
	URI    *Value
	Bytes  int // of binary data
	SHA256 string
	Other  *Pretty
}

type rawResult struct {
	Content    []jsontext.Value `json:"content"`
	Structured jsontext.Value   `json:"structuredContent"`
}

type rawBlock struct {
	Type     string      `json:"type"`
	Text     string      `json:"text"`
	Data     string      `json:"data"`
	MIME     string      `json:"mimeType"`
	URI      string      `json:"uri"`
	Resource rawResource `json:"resource"`
}

type rawResource struct {
	URI  string `json:"uri"`
	MIME string `json:"mimeType"`
	Text string `json:"text"`
	Blob string `json:"blob"`
}

func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// ReadResult reads the result of a tool. An error means that it is none; show it as it is.
func ReadResult(raw []byte, l Limits) (Result, error) {
	var r rawResult
	if err := json.Unmarshal(raw, &r, lenient()); err != nil {
		return Result{}, err
	}
	var result Result
	for _, element := range r.Content {
		block, err := readBlock(element, l)
		if err != nil {
			return Result{}, err
		}
		result.Blocks = append(result.Blocks, block)
		result.count(block)
	}
	if len(r.Structured) > 0 && r.Structured.Kind() != 'n' {
		pretty, err := ReadPretty(r.Structured, l)
		if err != nil {
			return Result{}, err
		}
		result.Structured = &pretty
		result.merge(pretty)
	}
	return result, nil
}

func (r *Result) count(b Block) {
	for _, v := range []*Value{b.Text, b.MIME, b.URI} {
		if v != nil {
			r.add(*v)
			r.Folded = r.Folded || v.Cut != nil
		}
	}
	if b.Other != nil {
		r.merge(*b.Other)
	}
}

func (r *Result) merge(p Pretty) {
	r.Hidden += p.Hidden
	r.Suspect += p.Suspect
	r.Folded = r.Folded || p.Folded
}

func readBlock(raw jsontext.Value, l Limits) (Block, error) {
	var b rawBlock
	if err := json.Unmarshal(raw, &b, lenient()); err != nil {
		return other(raw, l)
	}
	switch b.Type {
	case "text":
		return Block{Type: b.Type, Text: value(b.Text, l)}, nil
	case "image", "audio":
		return binary(Block{Type: b.Type, MIME: optional(b.MIME, l)}, b.Data), nil
	case "resource_link":
		return Block{Type: b.Type, URI: optional(b.URI, l), MIME: optional(b.MIME, l)}, nil
	case "resource":
		block := Block{Type: b.Type, URI: optional(b.Resource.URI, l), MIME: optional(b.Resource.MIME, l)}
		if b.Resource.Blob != "" {
			return binary(block, b.Resource.Blob), nil
		}
		block.Text = value(b.Resource.Text, l)
		return block, nil
	}
	return other(raw, l)
}

func other(raw jsontext.Value, l Limits) (Block, error) {
	pretty, err := ReadPretty(raw, l)
	return Block{Type: "other", Other: &pretty}, err
}

func value(text string, l Limits) *Value {
	v := Fold(text, l)
	return &v
}

func optional(text string, l Limits) *Value {
	if text == "" {
		return nil
	}
	return value(text, l)
}

// binary describes encoded data: of what cannot be decoded, the text itself.
func binary(b Block, encoded string) Block {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		data = []byte(encoded)
	}
	sum := sha256.Sum256(data)
	b.Bytes, b.SHA256 = len(data), hex.EncodeToString(sum[:])
	return b
}

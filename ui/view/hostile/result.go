package hostile

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Result is the result of a tool, block by block.
type Result struct {
	Blocks     []Block
	Structured *Pretty // structuredContent; nil: none
	Folded     bool
	Findings
}

// Block is an element of a result's content. Binary data is described, never rendered.
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

func lenientOptions() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// ReadResult reads the result of a tool. On an error, show the bytes as they are.
func ReadResult(raw []byte, l Limits) (Result, error) {
	var r rawResult
	if err := json.Unmarshal(raw, &r, lenientOptions()); err != nil {
		return Result{}, err
	}
	var result Result
	for _, element := range r.Content {
		block, err := readBlock(element, l)
		if err != nil {
			return Result{}, err
		}
		result.Blocks = append(result.Blocks, block)
		result.countBlock(block)
	}
	if len(r.Structured) > 0 && r.Structured.Kind() != 'n' {
		pretty, err := ReadPretty(r.Structured, l)
		if err != nil {
			return Result{}, err
		}
		result.Structured = &pretty
		result.countPretty(pretty)
	}
	return result, nil
}

func (r *Result) countBlock(b Block) {
	for _, v := range []*Value{b.Text, b.MIME, b.URI} {
		if v != nil {
			r.addValue(*v)
			r.Folded = r.Folded || v.Cut != nil
		}
	}
	if b.Other != nil {
		r.countPretty(*b.Other)
	}
}

func (r *Result) countPretty(p Pretty) {
	r.add(p.Findings)
	r.Folded = r.Folded || p.Folded
}

func readBlock(raw jsontext.Value, l Limits) (Block, error) {
	var b rawBlock
	if err := json.Unmarshal(raw, &b, lenientOptions()); err != nil {
		return readOther(raw, l)
	}
	switch b.Type {
	case "text":
		return Block{Type: b.Type, Text: foldPointer(b.Text, l)}, nil
	case "image", "audio":
		return describeBinary(Block{Type: b.Type, MIME: foldOptional(b.MIME, l)}, b.Data), nil
	case "resource_link":
		return Block{Type: b.Type, URI: foldOptional(b.URI, l), MIME: foldOptional(b.MIME, l)}, nil
	case "resource":
		block := Block{Type: b.Type, URI: foldOptional(b.Resource.URI, l), MIME: foldOptional(b.Resource.MIME, l)}
		if b.Resource.Blob != "" {
			return describeBinary(block, b.Resource.Blob), nil
		}
		block.Text = foldPointer(b.Resource.Text, l)
		return block, nil
	}
	return readOther(raw, l)
}

func readOther(raw jsontext.Value, l Limits) (Block, error) {
	pretty, err := ReadPretty(raw, l)
	return Block{Type: "other", Other: &pretty}, err
}

func foldPointer(text string, l Limits) *Value {
	v := Fold(text, l)
	return &v
}

func foldOptional(text string, l Limits) *Value {
	if text == "" {
		return nil
	}
	return foldPointer(text, l)
}

// describeBinary describes encoded data, or the text itself if it cannot be decoded.
func describeBinary(b Block, encoded string) Block {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		data = []byte(encoded)
	}
	sum := sha256.Sum256(data)
	b.Bytes, b.SHA256 = len(data), hex.EncodeToString(sum[:])
	return b
}

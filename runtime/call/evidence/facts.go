package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/typed"
)

// The bounds on the facts of one call. 500 calls of them are at most 2 MB.
const (
	maxFacts      = 64
	maxFactsBytes = 4 << 10
	maxValue      = 120 // bytes of a value that is kept as it is
	maxPath       = 200
	maxLeaves     = 1000
)

// Kind is the JSON type of a value.
type Kind byte

const (
	text   Kind = 's'
	number Kind = 'n'
	other  Kind = 'o' // true, false, null, {} and []
)

// Fact is one value of an approved call.
type Fact struct {
	Path  string `json:"p"` // a JSON Pointer with "*" in place of the index of a list
	Kind  Kind   `json:"k"`
	Value string `json:"v"`           // or the beginning of its SHA-256, if it is long
	Long  int    `json:"l,omitempty"` // the characters of a long value
	// Currency is that of an amount, if a value beside it or the name says one and not its text; see [typed.FindCurrency].
	Currency string `json:"c,omitempty"`
}

// Facts are the values of one approved call.
type Facts []Fact

// Collect returns the facts of a call's arguments. hidden has the pointers of secrets, which are left out.
func Collect(arguments []byte, hidden func(pointer string) bool) Facts {
	facts, size := Facts{}, 0
	seen := map[Fact]bool{}
	for _, l := range readLeaves(arguments, maxLeaves, hidden) {
		if hidden(l.pointer) || seen[l.Fact] || len(l.Path) > maxPath {
			continue
		}
		seen[l.Fact] = true
		if size += len(l.Path) + len(l.Value) + len(l.Currency) + 32; size > maxFactsBytes || len(facts) == maxFacts {
			break
		}
		facts = append(facts, l.Fact)
	}
	return facts
}

// key identifies a value.
type key struct {
	kind            Kind
	value, currency string
}

func (f Fact) historyKey() key { return key{f.Kind, f.Value, f.Currency} }

// countCharacters returns the characters of the value.
func (f Fact) countCharacters() int {
	if f.Long > 0 {
		return f.Long
	}
	return utf8.RuneCountInString(f.Value)
}

// leaf is a value with its place.
type leaf struct {
	Fact
	pointer string
}

var errEnough = errors.New("enough was read")

// readLeaves returns at most so many values of a document. Hidden ones say no currency.
func readLeaves(document []byte, most int, hidden func(pointer string) bool) []leaf {
	r := leafReader{decoder: jsontext.NewDecoder(bytes.NewReader(document), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), most: most}
	_ = r.readValue("", "") // arguments are valid JSON; anything else has the values before the error
	addCurrencies(r.leaves, hidden)
	return r.leaves
}

// addCurrencies adds the currencies of amounts.
func addCurrencies(leaves []leaf, hidden func(pointer string) bool) {
	texts := map[jsontext.Pointer]string{}
	for _, l := range leaves {
		if l.Kind == text && l.Long == 0 {
			texts[jsontext.Pointer(l.pointer)] = l.Value
		}
	}
	for i, l := range leaves {
		if l.Kind == other || l.Long > 0 {
			continue
		}
		if money, ok := typed.ReadAmount(l.lastName(), l.Value); l.Kind == text && (!ok || money.Currency != "") {
			continue
		}
		path, pointer := jsontext.Pointer(l.Path), jsontext.Pointer(l.pointer)
		for path.LastToken() == "*" { // the amounts of a list have the siblings of the list
			path, pointer = path.Parent(), pointer.Parent()
		}
		leaves[i].Currency = typed.FindCurrency(pointer.LastToken(), func(name string) (json.RawMessage, bool) {
			at := pointer.Parent().AppendToken(name)
			value, ok := texts[at]
			if !ok || hidden(string(at)) {
				return nil, false
			}
			quoted, err := jsontext.AppendQuote(nil, value)
			return json.RawMessage(quoted), err == nil
		})
	}
}

type leafReader struct {
	decoder *jsontext.Decoder
	leaves  []leaf
	most    int
}

func (r *leafReader) readValue(path, pointer jsontext.Pointer) error {
	switch r.decoder.PeekKind() {
	case '{', '[':
		return r.readNested(path, pointer)
	default:
	}
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case '"':
		value, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return err
		}
		return r.addLeaf(path, pointer, text, string(value))
	case '0':
		return r.addLeaf(path, pointer, number, string(raw))
	default:
		return r.addLeaf(path, pointer, other, string(raw))
	}
}

func (r *leafReader) readNested(path, pointer jsontext.Pointer) error {
	opening, err := r.decoder.ReadToken()
	if err != nil {
		return err
	}
	isList, n := opening.Kind() == '[', 0
	for ; r.decoder.PeekKind() != '}' && r.decoder.PeekKind() != ']'; n++ {
		name, place := strconv.Itoa(n), "*"
		if !isList {
			token, err := r.decoder.ReadToken()
			if err != nil {
				return err
			}
			name, place = token.String(), token.String()
		}
		if err := r.readValue(path.AppendToken(place), pointer.AppendToken(name)); err != nil {
			return err
		}
	}
	closing, err := r.decoder.ReadToken()
	if err != nil || n > 0 || pointer == "" {
		return err
	}
	return r.addLeaf(path, pointer, other, opening.String()+closing.String())
}

func (r *leafReader) addLeaf(path, pointer jsontext.Pointer, kind Kind, value string) error {
	if len(r.leaves) == r.most {
		return errEnough
	}
	f := Fact{Path: string(path), Kind: kind, Value: value}
	if len(value) > maxValue {
		sum := sha256.Sum256([]byte(value))
		f.Value, f.Long = hex.EncodeToString(sum[:12]), utf8.RuneCountInString(value)
	}
	r.leaves = append(r.leaves, leaf{f, string(pointer)})
	return nil
}

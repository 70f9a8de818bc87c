package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// maxYAMLMarks bounds the commas, colons and lines of a YAML document. It has no more values than these.
const maxYAMLMarks = 1_500_000

// readYAML reads a YAML document that can be represented as JSON, which OpenAPI requires. It follows aliases and merge keys within the
// limits of a document. Dates and other types that JSON lacks become strings.
func readYAML(doc []byte) (*value, error) {
	// While it is read, a value takes a hundred times its length.
	if marks := bytes.Count(doc, []byte{','}) + bytes.Count(doc, []byte{':'}) + bytes.Count(doc, []byte{'\n'}); marks > maxYAMLMarks {
		return nil, errors.New("it has too many values for YAML: give it as JSON")
	}
	var root yaml.Node
	if err := yaml.Unmarshal(doc, &root); err != nil {
		return nil, plainError(err)
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		return nil, errors.New("it is empty")
	}
	budget := maxValues
	v, err := readYAMLNode(root.Content[0], 0, &budget)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

func readYAMLNode(n *yaml.Node, depth int, budget *int) (value, error) {
	if *budget--; *budget < 0 {
		return value{}, errValues
	}
	if depth > maxNesting { // or an anchor contains itself
		return value{}, fmt.Errorf("line %d: it is nested deeper than %d", n.Line, maxNesting)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return readYAMLNode(n.Alias, depth+1, budget)
	case yaml.SequenceNode:
		v := value{kind: '['}
		for _, e := range n.Content {
			element, err := readYAMLNode(e, depth+1, budget)
			if err != nil {
				return value{}, err
			}
			v.members = append(v.members, member{value: element})
		}
		return v, nil
	case yaml.MappingNode:
		return readYAMLMapping(n, depth, budget)
	default:
		return readYAMLScalar(n)
	}
}

func readYAMLMapping(n *yaml.Node, depth int, budget *int) (value, error) {
	v := value{kind: '{'}
	own := map[string]bool{}
	var merged []value
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return value{}, fmt.Errorf("line %d: a key is no string", key.Line)
		}
		content, err := readYAMLNode(n.Content[i+1], depth+1, budget)
		if err != nil {
			return value{}, err
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, content)
			continue
		}
		if own[key.Value] {
			return value{}, fmt.Errorf("line %d: key %s is there twice", key.Line, plain.Quoted(key.Value, 100))
		}
		own[key.Value] = true
		v.members = append(v.members, member{key.Value, content})
	}
	for i := range merged {
		v.mergeMapping(&merged[i], own)
	}
	return v, nil
}

// mergeMapping adds the missing members from another mapping, or from a list of mappings (the merge key of YAML 1.1).
func (v *value) mergeMapping(other *value, own map[string]bool) {
	for _, m := range other.all() {
		switch {
		case other.kind == '[':
			v.mergeMapping(&m.value, own)
		case !own[m.name]:
			own[m.name] = true
			v.members = append(v.members, m)
		}
	}
}

func readYAMLScalar(n *yaml.Node) (value, error) {
	switch n.ShortTag() {
	case "!!null":
		return value{kind: 'n'}, nil
	case "!!bool":
		b, err := strconv.ParseBool(strings.ToLower(n.Value))
		if err != nil {
			return text(n.Value), nil //nolint:nilerr // "yes" and "no" are strings in YAML 1.2
		}
		return boolean(b), nil
	case "!!int":
		if len(n.Value) > maxDigits {
			return value{}, fmt.Errorf("line %d: number of more than %d digits", n.Line, maxDigits)
		}
		i, ok := new(big.Int).SetString(strings.TrimPrefix(n.Value, "+"), 0)
		if !ok {
			return text(n.Value), nil
		}
		return value{kind: '0', text: i.String()}, nil
	case "!!float":
		// The notation of a number that is valid JSON stays.
		if v, err := readJSON([]byte(n.Value)); err == nil && v.kind == '0' {
			return *v, nil
		}
		f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
		if err != nil {
			return text(n.Value), nil //nolint:nilerr // JSON has no .inf and .nan
		}
		v, err := readJSON(strconv.AppendFloat(nil, f, 'g', -1, 64))
		if err != nil {
			return text(n.Value), nil //nolint:nilerr // likewise
		}
		return *v, nil
	}
	return text(n.Value), nil
}

const maxDigits = 1000

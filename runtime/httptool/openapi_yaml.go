package httptool

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

// maxYAMLMarks bounds commas, colons and lines of a YAML document: there are no more values than that.
const maxYAMLMarks = 1_500_000

// readYAML reads a YAML document that could be JSON, as OpenAPI asks for: aliases and merge keys are followed, within the bounds of a
// document; dates and whatever else JSON has no name for are strings.
func readYAML(doc []byte) (*value, error) {
	// Each value takes a hundred times its length while it is read.
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
	v, err := yamlValue(root.Content[0], 0, &budget)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

func yamlValue(n *yaml.Node, depth int, budget *int) (value, error) {
	if *budget--; *budget < 0 {
		return value{}, errValues
	}
	if depth > maxNesting { // also an anchor within itself
		return value{}, fmt.Errorf("line %d: it is nested deeper than %d", n.Line, maxNesting)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return yamlValue(n.Alias, depth+1, budget)
	case yaml.SequenceNode:
		v := value{kind: '['}
		for _, e := range n.Content {
			element, err := yamlValue(e, depth+1, budget)
			if err != nil {
				return value{}, err
			}
			v.members = append(v.members, member{value: element})
		}
		return v, nil
	case yaml.MappingNode:
		return yamlMapping(n, depth, budget)
	default:
		return yamlScalar(n)
	}
}

func yamlMapping(n *yaml.Node, depth int, budget *int) (value, error) {
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
		member1, err := yamlValue(n.Content[i+1], depth+1, budget)
		if err != nil {
			return value{}, err
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, member1)
			continue
		}
		if own[key.Value] {
			return value{}, fmt.Errorf("line %d: key %s is there twice", key.Line, plain.Quoted(key.Value, 100))
		}
		own[key.Value] = true
		v.members = append(v.members, member{key.Value, member1})
	}
	for i := range merged {
		v.merge(&merged[i], own)
	}
	return v, nil
}

// merge adds the members of another mapping, or of several, that are not there yet (the merge key of YAML 1.1).
func (v *value) merge(other *value, own map[string]bool) {
	for _, m := range other.all() {
		switch {
		case other.kind == '[':
			v.merge(&m.value, own)
		case !own[m.name]:
			own[m.name] = true
			v.members = append(v.members, m)
		}
	}
}

func yamlScalar(n *yaml.Node) (value, error) {
	switch n.ShortTag() {
	case "!!null":
		return value{kind: 'n'}, nil
	case "!!bool":
		b, err := strconv.ParseBool(strings.ToLower(n.Value))
		if err != nil {
			return text(n.Value), nil //nolint:nilerr // "yes" and its like are strings in YAML 1.2
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
		return yamlFloat(n)
	}
	return text(n.Value), nil
}

const maxDigits = 1000

// yamlFloat keeps a number as it is written, where JSON can write it so.
func yamlFloat(n *yaml.Node) (value, error) {
	if v, err := readJSON([]byte(n.Value)); err == nil && v.kind == '0' {
		return *v, nil
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil {
		return text(n.Value), nil //nolint:nilerr // .inf and .nan are no numbers in JSON
	}
	v, err := readJSON(strconv.AppendFloat(nil, f, 'g', -1, 64))
	if err != nil {
		return text(n.Value), nil //nolint:nilerr // likewise
	}
	return *v, nil
}

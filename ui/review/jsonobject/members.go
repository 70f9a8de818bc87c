// Package jsonobject compares JSON objects by the bytes of their members: the changes that a request makes to an object, and the members
// that several objects have in common.
package jsonobject

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Split returns the members that all objects have with the same bytes, and the other members of each object.
func Split(documents [][]byte) (common []byte, own [][]byte) {
	own = make([][]byte, len(documents))
	all := make([][]member, len(documents))
	in := make(map[string]int) // the number of documents with a member; no document has a name twice
	for i, document := range documents {
		members, err := membersOf(document)
		if err != nil || documents[i] == nil {
			copy(own, documents)
			return []byte("{}"), own
		}
		all[i] = members
		for _, m := range members {
			in[m.encode()]++
		}
	}
	for i, members := range all {
		var rest, same []member
		for _, m := range members {
			if in[m.encode()] == len(documents) {
				same = append(same, m)
			} else {
				rest = append(rest, m)
			}
		}
		own[i] = joinMembers(rest)
		if i == 0 {
			common = joinMembers(same)
		}
	}
	return common, own
}

// member is a member of an object in its original bytes.
type member struct {
	name, value []byte
}

// unquoteName returns the name without its escapes.
func (m member) unquoteName() string {
	name, err := jsontext.AppendUnquote(nil, m.name)
	if err != nil { // it was read as a string
		return string(m.name)
	}
	return string(name)
}

func (m member) encode() string { return string(m.name) + ":" + string(m.value) }

func membersOf(document []byte) ([]member, error) {
	var list []member
	for m, err := range rawjson.Members(document) {
		if err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		list = append(list, member{m.Key, m.Value})
	}
	return list, nil
}

func joinMembers(members []member) []byte {
	object := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(object, m.encode()...)
	}
	return append(object, '}')
}

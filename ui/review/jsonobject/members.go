// Package jsonobject compares JSON objects by their members, as they are written: what a request makes of an object, and what
// several objects have in common.
package jsonobject

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Split splits objects: into the members that all of them have with the same bytes, and what is left of each.
func Split(documents [][]byte) (common []byte, own [][]byte) {
	own = make([][]byte, len(documents))
	all := make([][]member, len(documents))
	in := make(map[string]int) // how many documents have a member; none has two of one name
	for i, document := range documents {
		members, err := membersOf(document)
		if err != nil || documents[i] == nil {
			copy(own, documents)
			return []byte("{}"), own
		}
		all[i] = members
		for _, m := range members {
			in[m.text()]++
		}
	}
	for i, members := range all {
		var rest, same []member
		for _, m := range members {
			if in[m.text()] == len(documents) {
				same = append(same, m)
			} else {
				rest = append(rest, m)
			}
		}
		own[i] = object(rest)
		if i == 0 {
			common = object(same)
		}
	}
	return common, own
}

// member is a member of an object, as it is written.
type member struct {
	name, value []byte
}

// said is what the name says, however it is written.
func (m member) said() string {
	text, err := jsontext.AppendUnquote(nil, m.name)
	if err != nil { // it was read as a string
		return string(m.name)
	}
	return string(text)
}

func (m member) text() string { return string(m.name) + ":" + string(m.value) }

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

func object(members []member) []byte {
	text := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, m.text()...)
	}
	return append(text, '}')
}

package jsonobject

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// ErrNotCompared is that it cannot be told what a request makes of what is there.
var ErrNotCompared = errors.New("it cannot be told what becomes of what is there")

// Change is what a request makes of the JSON object that is there: all of it for a PUT, the members that it names for a PATCH
// (RFC 7396; of plain JSON RFC 5789 does not say). Members stand in the order that they have now. Names are compared as
// what they say, not as they are written: an escape in one hides no deletion. Where one object has a name twice,
// servers differ in which counts, so nothing is told: [jsontext.ErrDuplicateName].
func Change(o *tool.Outgoing, present []byte) ([]byte, view.Change, error) {
	media := ""
	for _, h := range o.Headers {
		if strings.EqualFold(h.Name, "Content-Type") {
			media, _, _ = strings.Cut(strings.ToLower(h.Value), ";")
		}
	}
	media = strings.TrimSpace(media)
	patch := o.Method == http.MethodPatch
	how := view.ChangeWhole
	switch {
	case media == "application/merge-patch+json" && patch:
		how = view.ChangeMerged
	case media == "application/json" && patch:
		how = view.ChangeLikely
	case media == "application/json" && o.Method == http.MethodPut:
	default:
		return nil, "", ErrNotCompared
	}
	if !hostile.IsJSON(present) || !hostile.IsJSON(o.Body) || !isObject(present) || !isObject(o.Body) {
		return nil, "", ErrNotCompared
	}
	after, err := merged(present, o.Body, patch, 0)
	return after, how, err
}

const maxMerged = 32 // levels

// merged puts one value in the place of another, objects member by member; patch: what the second does not name
// stays, and its nulls remove.
func merged(present, change []byte, patch bool, depth int) ([]byte, error) {
	if !isObject(change) {
		return change, nil
	}
	if depth > maxMerged {
		return nil, ErrNotCompared
	}
	wanted, err := membersOf(change)
	if err != nil {
		return nil, err
	}
	var now []member
	if isObject(present) {
		if now, err = membersOf(present); err != nil {
			return nil, err
		}
	}
	var list []member
	for _, c := range paired(now, wanted) {
		switch {
		case c.wanted == nil && patch:
			list = append(list, member{c.name, c.present})
		case c.wanted == nil || patch && string(c.wanted) == "null":
		default:
			value, err := merged(c.present, c.wanted, patch, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, member{c.name, value})
		}
	}
	return object(list), nil
}

// changedMember is a member of one or both of two objects.
type changedMember struct {
	name            []byte
	present, wanted []byte // nil: it has none of that name
}

// paired puts the members of two objects together by their names: first those that are there.
func paired(now, wanted []member) []changedMember {
	list := make([]changedMember, 0, len(now)+len(wanted))
	at := make(map[string]int, len(now))
	for i, m := range now {
		at[m.said()] = i
		list = append(list, changedMember{name: m.name, present: m.value})
	}
	for _, w := range wanted {
		if i, known := at[w.said()]; known {
			list[i].wanted = w.value
		} else {
			list = append(list, changedMember{name: w.name, wanted: w.value})
		}
	}
	return list
}

func isObject(value []byte) bool { return jsontext.Value(value).Kind() == '{' }

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

// ErrNotCompared says that the effect of a request cannot be computed.
var ErrNotCompared = errors.New("the effect of the request cannot be computed")

// Change returns the JSON object after a request: a PUT replaces the current object, and a PATCH merges into it (RFC 7396; for plain JSON,
// RFC 5789 does not define how). Members keep their current order. Names are compared without their escapes, so that an escape hides no
// deletion. If an object has a name twice, servers differ in which one counts, and the error is [jsontext.ErrDuplicateName].
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
	after, err := mergeValues(present, o.Body, patch, 0)
	return after, how, err
}

const maxMerged = 32 // levels

// mergeValues replaces a value, and objects member by member. With patch, members that the change does not name stay, and its nulls remove
// members.
func mergeValues(present, change []byte, patch bool, depth int) ([]byte, error) {
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
	for _, c := range pairMembers(now, wanted) {
		switch {
		case c.wanted == nil && patch:
			list = append(list, member{c.name, c.present})
		case c.wanted == nil || patch && string(c.wanted) == "null":
		default:
			value, err := mergeValues(c.present, c.wanted, patch, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, member{c.name, value})
		}
	}
	return joinMembers(list), nil
}

// changedMember is a member of one or both of two objects.
type changedMember struct {
	name            []byte
	present, wanted []byte // nil: no such member
}

// pairMembers pairs the members of two objects by name. The present ones come first.
func pairMembers(now, wanted []member) []changedMember {
	list := make([]changedMember, 0, len(now)+len(wanted))
	at := make(map[string]int, len(now))
	for i, m := range now {
		at[m.unquoteName()] = i
		list = append(list, changedMember{name: m.name, present: m.value})
	}
	for _, w := range wanted {
		if i, known := at[w.unquoteName()]; known {
			list[i].wanted = w.value
		} else {
			list = append(list, changedMember{name: w.name, wanted: w.value})
		}
	}
	return list
}

func isObject(value []byte) bool { return jsontext.Value(value).Kind() == '{' }

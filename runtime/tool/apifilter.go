package tool

import (
	"errors"
	"strings"
)

// ErrFilter is that a text is no [OperationFilter].
var ErrFilter = errors.New("want an operationId, or some of operation_id=, tag=, method= and path= with commas between")

// ParseFilter reads a filter as people write one on a line: the pattern of an operationId, or operation_id=, tag=, method= and
// path= with commas between.
func ParseFilter(text string) (OperationFilter, error) {
	var f OperationFilter
	text = strings.TrimSpace(text)
	if text == "" {
		return f, ErrFilter
	}
	if !strings.Contains(text, "=") {
		f.OperationID = text
		return f, nil
	}
	members := map[string]*string{"operation_id": &f.OperationID, "tag": &f.Tag, "method": &f.Method, "path": &f.Path}
	var last *string // values may have commas: a comma ends one only where the next one's name follows
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		member := members[strings.TrimSpace(name)]
		switch {
		case member == nil && last != nil:
			*last += "," + strings.TrimRight(part, " ")
		case member == nil || strings.TrimSpace(value) == "":
			return OperationFilter{}, ErrFilter
		default:
			*member, last = strings.TrimSpace(value), member
		}
	}
	return f, nil
}

// Literal is a pattern that fits nothing but a text.
func Literal(text string) string { return strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(text) }

// FilterOf selects one operation of the document, and no other.
func (e *Examination) FilterOf(o *Operation) OperationFilter {
	same := 0
	for i := range e.Operations {
		if e.Operations[i].OperationID == o.OperationID {
			same++
		}
	}
	if o.OperationID != "" && same == 1 && len(o.OperationID) <= maxPattern/2 {
		return OperationFilter{OperationID: Literal(o.OperationID)}
	}
	return OperationFilter{Method: o.Method, Path: Literal(o.Path)}
}

// String is the line that [ParseFilter] reads.
func (f OperationFilter) String() string {
	var parts []string
	for _, member := range []struct{ name, value string }{
		{"operation_id", f.OperationID}, {"tag", f.Tag}, {"method", f.Method}, {"path", f.Path},
	} {
		if member.value != "" {
			parts = append(parts, member.name+"="+member.value)
		}
	}
	if len(parts) == 1 && f.OperationID != "" && !strings.Contains(f.OperationID, "=") {
		return f.OperationID
	}
	return strings.Join(parts, ",")
}

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
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		member := members[strings.TrimSpace(name)]
		if member == nil || strings.TrimSpace(value) == "" {
			return OperationFilter{}, ErrFilter
		}
		*member = strings.TrimSpace(value)
	}
	return f, nil
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

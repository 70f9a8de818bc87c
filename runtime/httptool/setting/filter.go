package setting

import (
	"errors"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ErrFilter reports that a text is not an operation filter.
var ErrFilter = errors.New("must be an operationId, or some of operation_id=, tag=, method= and path= with commas between")

// ParseFilter reads a filter on one line: the pattern of an operationId, or operation_id=, tag=, method= and path= separated by
// commas.
func ParseFilter(text string) (tool.OperationFilter, error) {
	var f tool.OperationFilter
	text = strings.TrimSpace(text)
	if text == "" {
		return f, ErrFilter
	}
	if !strings.Contains(text, "=") {
		f.OperationID = text
		return f, nil
	}
	members := map[string]*string{"operation_id": &f.OperationID, "tag": &f.Tag, "method": &f.Method, "path": &f.Path}
	var last *string // a value may contain commas: a comma ends it only if the name of another member follows
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		member := members[strings.TrimSpace(name)]
		switch {
		case member == nil && last != nil:
			*last += "," + strings.TrimRight(part, " ")
		case member == nil || strings.TrimSpace(value) == "":
			return tool.OperationFilter{}, ErrFilter
		default:
			*member, last = strings.TrimSpace(value), member
		}
	}
	return f, nil
}

// FormatFilter writes the line that [ParseFilter] reads.
func FormatFilter(f tool.OperationFilter) string {
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

// EscapePattern returns the pattern that matches text and nothing else.
func EscapePattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(text)
}

package hostile

import (
	"cmp"
	"slices"
	"strings"
)

// weights say how much a name reveals about the effect of a call. Only the order of fields depends on them.
var weights = map[string]int{ //nolint:gochecknoglobals // a table
	"path": 9, "file": 9, "filename": 9, "file_path": 9, "destination": 9, "target": 9, "to": 9, "recipient": 9,
	"recipients": 9, "command": 9, "cmd": 9, "sql": 9, "query": 8, "statement": 9, "url": 9, "uri": 9, "host": 8, "amount": 9, "total": 8,
	"currency": 6, "account": 8, "iban": 9, "email": 8, "user": 7, "username": 7, "repo": 8, "repository": 8, "branch": 7,
	"bucket": 8, "table": 8, "database": 8, "channel": 8, "source": 7, "subject": 7, "title": 6, "name": 6, "id": 5,
	"method": 6, "action": 7, "operation": 7, "expression": 6, "message": 5, "body": 3, "content": 2, "text": 3,
	"description": 2, "encoding": 1, "format": 1, "limit": 1,
}

// maxConsidered is the number of fields of a document that [Decisive] reads.
const maxConsidered = 100

// Decisive returns up to n fields that reveal most about the effect of a call, among the first hundred of the document. The findings
// are those of all fields that it read. If the document has more than a hundred fields, More is a lower bound.
func Decisive(document []byte, n int, l Limits) Fields {
	l.Fields = maxConsidered
	r := newFieldReader(document, l)
	r.stop, r.secrets = true, secretsByEnd(l.Secrets, document, maxConsidered)
	_ = r.readValue(path{}) // fields before a syntax error are shown
	fields := r.fields
	all := len(fields.List) + fields.More
	if all == 1 && fields.List[0].Depth == 0 {
		return Fields{Findings: fields.Findings} // no arguments
	}
	shown := slices.DeleteFunc(slices.Clone(fields.List), func(f Field) bool { return f.Secret })
	slices.SortStableFunc(shown, func(a, b Field) int { return cmp.Compare(weighField(b), weighField(a)) })
	fields.List = shown[:min(n, len(shown))]
	fields.More = all - len(fields.List)
	return fields
}

func weighField(f Field) int {
	w := 10 * weights[strings.ToLower(f.Name)]
	if f.Type == Text || f.Type == Number {
		w += 4
	}
	return w - 12*max(0, f.Depth-1)
}

package hostile

import (
	"cmp"
	"slices"
	"strings"
)

// weights order names by how much they tell of what a call will do. Only the
// order of showing depends on it.
var weights = map[string]int{ //nolint:gochecknoglobals // a table
	"path": 9, "file": 9, "filename": 9, "file_path": 9, "destination": 9, "target": 9, "to": 9, "recipient": 9,
	"recipients": 9, "command": 9, "cmd": 9, "sql": 9, "query": 8, "statement": 9, "url": 9, "uri": 9, "host": 8, "amount": 9, "total": 8,
	"currency": 6, "account": 8, "iban": 9, "email": 8, "user": 7, "username": 7, "repo": 8, "repository": 8, "branch": 7,
	"bucket": 8, "table": 8, "database": 8, "channel": 8, "source": 7, "subject": 7, "title": 6, "name": 6, "id": 5,
	"method": 6, "action": 7, "operation": 7, "expression": 6, "message": 5, "body": 3, "content": 2, "text": 3,
	"description": 2, "encoding": 1, "format": 1, "limit": 1,
}

// private are parts of names whose values do not belong into a list.
func private() []string {
	return []string{"password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential", "private_key"}
}

// considered is how many fields of a document Decisive looks at.
const considered = 100

// Decisive picks up to n fields that tell most of what a call will do, read with the given
// limits from at most the first hundred of the document; the findings are those of all that were read. Nothing is read
// after them: where there are more fields, More is how many there are at least.
func Decisive(document []byte, n int, l Limits) Fields {
	if l.Fields = considered; l.Secrets == nil {
		l.Secrets = &Secrets{}
	}
	r := newFieldReader(document, l)
	r.stop, r.secrets = true, l.Secrets.byEnd(document, considered)
	_ = r.value(path{}) // what was read before an error is shown
	fields := r.fields
	all := len(fields.List) + fields.More
	if all == 1 && fields.List[0].Depth == 0 {
		return Fields{Findings: fields.Findings} // no arguments
	}
	shown := slices.DeleteFunc(slices.Clone(fields.List), func(f Field) bool { return f.Secret || isPrivate(f.Name) })
	slices.SortStableFunc(shown, func(a, b Field) int { return cmp.Compare(weight(b), weight(a)) })
	fields.List = shown[:min(n, len(shown))]
	fields.More = all - len(fields.List)
	return fields
}

func weight(f Field) int {
	w := 10 * weights[strings.ToLower(f.Name)]
	if f.Type == Text || f.Type == Number {
		w += 4
	}
	return w - 12*max(0, f.Depth-1)
}

func isPrivate(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	return slices.ContainsFunc(private(), func(part string) bool { return strings.Contains(name, part) })
}

package postgres

import (
	"reflect"
	"regexp"
	"strings"
)

var unnestedArrays = regexp.MustCompile(`unnest\(\(SELECT (\$\d+::\w+)\[\]\)((?:,\s*\$\d+::\w+\[\])*)\)`)

// ForOneRow returns a statement for many rows (see the package comment) as one for a single row, which PostgreSQL runs in half the
// time: a SELECT of values takes the place of unnest. Its arguments are those of [FirstRow].
func ForOneRow(sql string) string {
	return unnestedArrays.ReplaceAllStringFunc(sql, func(source string) string {
		columns := unnestedArrays.FindStringSubmatch(source)
		return "(SELECT " + columns[1] + strings.ReplaceAll(columns[2], "[]", "") + ")"
	})
}

// FirstRow returns the first element of each array.
func FirstRow(columns []any) []any {
	row := make([]any, len(columns))
	for i, column := range columns {
		row[i] = reflect.ValueOf(column).Index(0).Interface()
	}
	return row
}

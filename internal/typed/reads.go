package typed

import (
	"slices"
	"strings"
)

// ReadsOnly reports whether all statements of an SQL text certainly only read, in PostgreSQL, MySQL, SQLite and SQL Server alike. It knows
// few statements and functions, and refuses everything that these databases read differently: comments, backslashes, brackets, dollar quotes,
// characters outside ASCII. So false means nothing; true means that no statement can change data, as far as views and
// operators that the database defines allow.
func ReadsOnly(text string) bool {
	if len(text) > MaxScanned || strings.ContainsFunc(text, isOutsideSQL) {
		return false
	}
	tokens := readSQL(text).tokens
	if slices.ContainsFunc(tokens, func(t token) bool { return t.class == ClassComment || t.class == ClassName && !isParameter(t.text) }) {
		return false
	}
	statements := slices.DeleteFunc(splitStatements(tokens), func(statement []token) bool { return len(statement) == 0 })
	return len(statements) > 0 && !slices.ContainsFunc(statements, func(statement []token) bool { return !statementReads(statement) })
}

func isOutsideSQL(r rune) bool {
	return r >= 0x7F || r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == '\\' || r == '[' || r == ']' || r == '{' || r == '#'
}

func isParameter(text string) bool {
	digits := strings.TrimPrefix(text, "$")
	return digits != "" && digits != text && strings.Trim(digits, "0123456789") == ""
}

func statementReads(tokens []token) bool {
	if !readingStatements.hasWordFold(tokens[0].text) || tokens[0].class == ClassString {
		return false
	}
	for i, t := range tokens {
		switch t.class {
		case ClassString:
			if t.text[0] == '$' || !isClosed(t.text) || i+1 < len(tokens) && tokens[i+1].text == "(" { // a quoted function
				return false
			}
		case ClassNumber:
			if slices.ContainsFunc([]byte(t.text), isLetter) { // 1DROP is two tokens in SQL Server
				return false
			}
		case ClassOperator:
			if t.text == "@" || t.text == ":" || t.text == "?" || t.text == "$" { // variables, which some databases assign
				if t.text != "?" && !isCast(tokens, i) {
					return false
				}
			}
		default:
			if writingWords.hasWordFold(t.text) || takesFromSequence(tokens[i:]) || takesLocks(tokens, i) {
				return false
			}
			isCall := i+1 < len(tokens) && tokens[i+1].text == "("
			isQualified := i > 0 && tokens[i-1].text == "."
			if isCall && (isQualified || !readingFunctions.hasWordFold(t.text) && !readingClauses.hasWordFold(t.text)) {
				return false
			}
		}
	}
	return true
}

// takesLocks reports whether the word at i may begin a clause that takes locks: FOR SHARE and the like, but also FOR in a function; a hint for a
// table in SQL Server, WITH (TABLOCKX), also without WITH; or anything behind WITH that is no common table expression and none of the known
// clauses.
func takesLocks(tokens []token, i int) bool {
	switch {
	case strings.EqualFold(tokens[i].text, "for"), lockingWords.hasWordFold(tokens[i].text):
		return true
	case !strings.EqualFold(tokens[i].text, "with"):
		return false
	case i+1 == len(tokens):
		return true
	case i == 0 || tokens[i-1].text == "(": // a common table expression
		return tokens[i+1].text == "("
	}
	return !withClauses.hasWordFold(tokens[i+1].text)
}

// takesFromSequence reports whether tokens begin with NEXT VALUE.
func takesFromSequence(tokens []token) bool {
	return len(tokens) > 1 && strings.EqualFold(tokens[0].text, "next") && strings.EqualFold(tokens[1].text, "value")
}

// isCast reports whether the operator at i is a colon of "::".
func isCast(tokens []token, i int) bool {
	return tokens[i].text == ":" && (i > 0 && tokens[i-1].text == ":" || i+1 < len(tokens) && tokens[i+1].text == ":")
}

// isClosed reports whether a quoted text ends with the quote that it begins with.
func isClosed(text string) bool {
	return len(text) >= 2 && text[0] == text[len(text)-1]
}

//nolint:gochecknoglobals // tables
var (
	readingStatements = newWords("select with values")
	writingWords      = newWords("insert update delete drop alter create truncate grant revoke merge call exec execute into set use copy lock do vacuum analyze reindex refresh cluster comment attach detach pragma load handler rename shutdown kill backup restore dbcc deny reconfigure waitfor bulk openrowset opendatasource openquery begin commit rollback savepoint start declare prepare deallocate listen notify unlisten discard reset checkpoint import export go return print raiserror throw goto while if save disable enable setuser updatetext writetext readtext receive send move add outfile dumpfile procedure replace reassign security")
	lockingWords      = newWords("tablock tablockx updlock xlock paglock rowlock holdlock serializable repeatableread")
	withClauses       = newWords("ties ordinality rollup cube time") // "timestamp with time zone"
	readingFunctions  = newWords("count sum avg min max coalesce nullif lower upper length char_length trim ltrim rtrim substr substring left right round abs ceil ceiling floor mod power sqrt greatest least concat date_trunc date_part date extract now to_char to_date to_timestamp cast convert year month day row_number rank dense_rank lag lead first_value last_value ntile array_agg string_agg group_concat json_agg jsonb_agg stddev variance median percentile_cont percentile_disc position strpos ifnull isnull len datediff dateadd datepart")
	readingClauses    = newWords("select from where and or not in exists any some all on using as over partition by order group having join filter case when then else between like ilike union except intersect values with distinct limit offset lateral is numeric decimal varchar char")
)

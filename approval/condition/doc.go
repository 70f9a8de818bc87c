// Package condition owns the conditions of rules: expressions in CEL (https://cel.dev) about one call, such as
//
//	args.amount <= 100.0 && args.currency == "EUR"
//
// It checks a condition against the input schema of a tool, and evaluates it for a call. It does not know rules, effects or the database.
//
// # What a condition reads
//
//	args        the arguments of the call, with the types of the tool's input schema
//	agent       the name of the agent
//	skill       the name of the skill
//	tool        the name of the tool
//	principal   the person or service behind the call: id, email, name, groups; null if there is none
//	claimed     what the tool's server claims: read_only, destructive, idempotent, open_world
//	context     what the caller of a gate-only call claims: cwd, the folder in which it runs; paths, the files and folders that the call names,
//	            with all links followed. Missing unless it says so
//	now         the time, by the database's clock
//
// It never reads results or text of a model. What a server claims is not to be trusted: a rule that allows calls should not depend on it.
//
// # Types
//
// A type of JSON Schema becomes a type of CEL:
//
//	string, boolean                  string, bool
//	integer                          int: write 100
//	number                           double: write 100.0
//	array with items                 list of that type
//	object with properties           object with these fields and no others
//	object with additionalProperties map: args.limits.day or args.limits["day"]
//	T and null                       T that may be compared with null; a nullable list or map is untyped
//	several types, none, unknown     untyped
//
// References within the document are followed; a reference to itself and beyond 50 levels is untyped. allOf joins the fields, and so does
// anyOf of objects. enum limits what a string may be compared with. A field whose name is no identifier is written in backticks:
// args.`from-date`; names with other characters than letters, digits and _.-/ or a space cannot be reached in an object with properties.
//
// The types are checked when the condition is compiled. A comparison of an int with a double does not compile, and neither do a field that
// the schema does not have, a text that an enum does not have, an invalid pattern or time zone, and a part that is the same for every
// call. Untyped values are compared when the condition is evaluated: values of different types are not equal, and less and greater fail.
//
// # Values
//
// Arguments are decoded exactly, and never converted from one type to another:
//
//   - An integer is exact up to 64 bits: 9007199254740993 differs from 9007199254740992. 1.0 and 1e2 are integers.
//   - A number has a value if the shortest text of the double means the same number: 0.1 has, and 9007199254740993 has not.
//   - An untyped number is an int if it has neither a fraction nor an exponent, otherwise a double. It must be smaller than 2^53, because CEL
//     compares an int with a double by rounding.
//     An integer of the schema is compared so too if a list or ?: mixes it with untyped values.
//   - Negative zero is zero. No value is infinite, and arithmetic that leads there fails.
//   - A missing field and null differ: has(args.memo) is false for the first and true for the second.
//
// A server may take Amount for amount. So an argument is bad if the call has a name beside it, or instead of it, that differs only in case, _ or -
// and is not in the schema. Without a schema, two names that differ only in case are both bad.
//
// A value that has another type than the schema says, a number without an exact value, text that is not UTF-8 and anything nested more
// than 100 deep are bad. A bad value fails the conditions that touch it and no others. A path leads past the values beside it: args.a does
// not touch args.b. A list or an object that is used as a whole (in ==, in, size, all) touches everything in it.
//
// # Errors
//
// A condition is true, false, or fails. It fails if it needs a bad or missing value, if an operation has no result (division by zero,
// overflow), or if it costs more than its limits. A rule that fails must never allow a call. The caller parks the call and names the rule.
//
// && and || give an answer if one side decides it, in either order: false && error is false, and true || error is true. That is CEL's rule, and
// it is safe for all effects: such an answer does not depend on the value that could not be read. Whatever it were, the
// answer would be the same. So an error can never make a condition true, and !error is an error. If a field must be readable in any case, name it on
// the other side too: args.ok || args.amount > 5.0 says nothing about the amount of a call with ok.
//
// # Functions
//
// CEL's operators, has, size, in, all, exists, exists_one, filter, map, contains, startsWith, endsWith, matches with a pattern in quotes (RE2),
// int, double, string, timestamp, duration; parts of times with a zone in quotes, now.getHours("Europe/Berlin"), by default in UTC
// (getMonth, getDayOfMonth and getDayOfYear count from 0, getDate from 1, getDayOfWeek from Sunday as 0). int and double convert exactly or fail.
// There is no dyn, type, bytes, uint and bool, so no condition can avoid the types.
//
// Of CEL's extensions there are the few that rules need:
//
//	text.lowerAscii()           to compare names without regard to case
//	text.trim(), text.split(",")  for several recipients in one text
//	text.replace(" ", "")       for numbers that are written in groups, such as an IBAN
//	math.abs, floor, ceil, round  to make a whole number of an amount
//
// Sets need no functions: args.to.all(a, a in ["…", "…"]) and args.tags.exists(t, t in ["…"]).
//
// Our own functions answer only if they are sure:
//
//   - domain(text) is the domain of one e-mail address or the host of a URL, in lower case; internationalized names in their ASCII form, numeric hosts as
//     an IP address. It fails for everything else, and for texts that programs read differently. The domain is the whole one: mail.example.com is
//     not example.com. In an allow rule the error means that the call is not allowed by it; in a deny or park rule, that the call parks.
//
//   - within(path, folder) tells whether a path lies below a folder, after "." and ".." are resolved in the text. It fails for paths that
//     servers read differently: backslashes, percent-encoding, control characters, ~, URLs, two slashes at the beginning, names that end with a
//     space or a dot, characters that become dots or slashes, and one absolute with one relative path. It does not know links, and it regards case. In an allow rule, write within(…) for the folder that
//     is allowed; an error allows nothing. A deny rule for a folder, within(args.path, "/etc"), parks the paths that it cannot read. So does a
//     deny rule for everything outside, !within(args.path, "/srv/agent").
//
//   - writesSQL(text) is false only if all statements are sure to only read, in PostgreSQL, MySQL, SQLite and SQL Server. It never fails. Text
//     that is no SQL, comments, functions that it does not know, and everything that these databases read differently count as writing. So
//     !writesSQL(args.sql) is safe in an allow rule, and writesSQL(args.sql) in a deny or park rule. It cannot see what views,
//     operators and functions of the known names do if the database redefines them.
//
//   - filesRead(command) lists the files, folders and patterns of names that a shell command reads, as it writes them. It is empty unless the command
//     certainly only reads: a few programs with a few options, words and quotes, joined by |, &&, || and ;. It never fails. In an
//     allow rule, write size(filesRead(args.command)) > 0 beside a condition for each of them.
//
// # Limits
//
// A condition has at most 4096 bytes and 100 levels of nesting. One evaluation costs at most 1,000,000 units, as in Kubernetes, and its
// loops take at most 50 ms. A condition that would cost more by the sizes in the schema is refused. A list without maxItems is assumed to have
// 1000 elements and a text without maxLength 10,000 characters, each of them 100 within a list. Without a schema nothing is refused for its cost.
// A search for a pattern costs by the length of the text and the size of the pattern, so it fails for a text that is too long for the pattern.
package condition

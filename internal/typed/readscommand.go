package typed

import (
	"regexp"
	"slices"
	"strings"
)

// maxCommand is the number of bytes of the longest command that [FilesRead] examines.
const maxCommand = 4096

// FilesRead returns the files, folders and patterns of names that a shell command reads, as the command writes them. The result is empty unless the
// command certainly only reads: a few programs with a few options, plain words and quotes, joined by |, &&, || and ;. Everything that a
// shell would expand or that starts another program makes it empty. A program that reads the folder in which it runs reads ".".
//
// What an alias, a function or the configuration of Git makes of a program is not known.
func FilesRead(command string) []string {
	if len(command) > maxCommand {
		return nil
	}
	programs, ok := splitCommand(command)
	if !ok {
		return nil
	}
	var files []string
	for _, program := range programs {
		read, ok := listFiles(program)
		if !ok {
			return nil
		}
		for _, file := range read {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// splitCommand returns the words of each program of a command. It refuses everything but words, quotes and operators that join programs.
func splitCommand(text string) (programs [][]string, ok bool) {
	var words []string
	for at := 0; at < len(text); {
		switch rest := text[at:]; {
		case text[at] == ' ':
			at++
		case text[at] == ';' || strings.HasPrefix(rest, "&&") || text[at] == '|' && !strings.HasPrefix(rest, "|&"):
			if len(words) == 0 {
				return nil, false
			}
			programs, words = append(programs, words), nil
			if at++; rest[0] == '&' || strings.HasPrefix(rest, "||") {
				at++
			}
		default:
			word, length := readWord(rest)
			if length == 0 {
				return nil, false
			}
			if at += length; !harmlessRedirections.hasWord(rest[:length]) {
				words = append(words, word)
			}
		}
	}
	return append(programs, words), len(words) > 0
}

// IsWords reports whether a text is only words of one program to every shell: no operators, no redirections, nothing that is expanded.
func IsWords(text string) bool {
	programs, ok := splitCommand(text)
	return ok && len(programs) == 1
}

// readWord returns the first word of a text as the shell passes it on, and its length in the text. 0: it is not plain.
func readWord(text string) (word string, length int) {
	for redirection := range harmlessRedirections {
		if rest, ok := strings.CutPrefix(text, redirection); ok && (rest == "" || strings.IndexByte(" |;&", rest[0]) >= 0) {
			return "", len(redirection)
		}
	}
	var b strings.Builder
	at := 0
	for at < len(text) && strings.IndexByte(" |;&", text[at]) < 0 {
		c := text[at]
		switch {
		case c == '\'' || c == '"':
			quoted, length := readQuoted(text[at:])
			if length == 0 {
				return "", 0
			}
			b.WriteString(quoted)
			at += length
			continue
		case isLetter(c), isDigit(c), strings.IndexByte("_./,:@%+-", c) >= 0:
		case c == '=' && at > 0, (c == '~' || c == '^') && at > 0 && (isLetter(text[at-1]) || isDigit(text[at-1])):
		default:
			return "", 0
		}
		b.WriteByte(c)
		at++
	}
	return b.String(), at
}

// readQuoted returns the content of a text in quotes, and its length with them. 0: a shell would expand a part of it, or it does not end.
func readQuoted(text string) (content string, length int) {
	for at := 1; at < len(text); at++ {
		c := text[at]
		switch {
		case c == text[0]:
			return text[1:at], at + 1
		case c < ' ' || c > '~':
			return "", 0
		case text[0] == '\'':
		case c == '$' || c == '`' || c == '!':
			return "", 0
		case c == '\\' && (at+1 == len(text) || strings.IndexByte("$`\"\\", text[at+1]) >= 0):
			return "", 0
		}
	}
	return "", 0
}

// reader is a program that only reads if it has no other options.
type reader struct {
	flags  string // letters of options without a value
	valued string // letters of options with one
	long   string // other options, with a = behind those with a value
	globs  string // options whose value is a pattern of names
	words  int    // operands before the files, such as a pattern
	stream bool   // it reads its standard input only, and its operands are no files
	folder bool   // without a file, it reads the folder in which it runs
}

//nolint:gochecknoglobals // tables
var (
	harmlessRedirections = newWords("2>/dev/null 2>&1")
	printedLines         = regexp.MustCompile(`^(?:\d+|\$)(?:,(?:\d+|\$))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$))?p)*$`)

	ancestor = regexp.MustCompile(`(?:[~^]\d*)+$`) // of a revision

	readers = map[string]reader{
		"cat":  {flags: "nAbestvET"},
		"head": {flags: "qv0123456789", valued: "nc", long: "--lines= --bytes="},
		"tail": {flags: "qv0123456789", valued: "nc", long: "--lines= --bytes="},
		"nl":   {valued: "bwsnvi"},
		"wc":   {flags: "lcwmL", long: "--lines --words --bytes"},
		"ls":   {flags: "alhtrRSF1dApGsi", long: "--color=", folder: true},
		"pwd":  {stream: true, folder: true},
		"true": {stream: true},
		"sort": {flags: "nrufhV", valued: "kt"},
		"uniq": {flags: "cdu", stream: true},
		"cut":  {valued: "dfc"},
		"tr":   {flags: "dsc", stream: true},
		"stat": {valued: "cf"},
		"du":   {flags: "shadc", long: "--max-depth=", valued: "d", folder: true},
		"rg": {
			flags: "nilcvwFSsNHIoUPhqx", valued: "etTABCmMj", globs: "-g --glob --iglob", words: 1, folder: true,
			long: "--files --files-with-matches --files-without-match --line-number --no-line-number --no-heading --heading --ignore-case --smart-case --case-sensitive --count --fixed-strings --word-regexp --only-matching --column --multiline --no-messages --with-filename --no-filename --invert-match --stats --trim --type= --type-not= --max-count= --max-depth= --max-columns= --context= --after-context= --before-context= --color= --sort= --regexp=",
		},
		"grep": {
			flags: "nilcvwFEPHhosqx", valued: "eABCm", globs: "--include --exclude", words: 1,
			long: "--line-number --ignore-case --count --fixed-strings --extended-regexp --word-regexp --only-matching --files-with-matches --max-count= --context= --color= --regexp=",
		},
		"git status":    {flags: "sbvuz", long: "--short --branch --porcelain --porcelain= --untracked-files= --ignored", folder: true},
		"git diff":      {flags: "wbp0123456789", valued: "U", long: "--stat --shortstat --numstat --name-only --name-status --cached --staged --no-color --color= --unified= --word-diff --check --summary --ignore-all-space", folder: true},
		"git log":       {flags: "p0123456789", valued: "nSG", long: "--oneline --stat --shortstat --numstat --name-only --name-status --graph --decorate --no-decorate --all --no-color --color= --patch --reverse --merges --no-merges --follow --first-parent --max-count= --since= --until= --after= --before= --author= --grep= --format= --pretty= --date= --abbrev-commit", folder: true},
		"git show":      {flags: "ps", long: "--stat --shortstat --numstat --name-only --name-status --no-color --color= --oneline --no-patch --format= --pretty= --date= --unified=", valued: "U", folder: true},
		"git blame":     {flags: "wsl", valued: "L", long: "--date= --porcelain"},
		"git ls-files":  {flags: "mosz", long: "--others --exclude-standard --modified --deleted --cached --stage", folder: true},
		"git rev-parse": {long: "--show-toplevel --abbrev-ref --short --git-dir --is-inside-work-tree --verify", folder: true},
		"git branch":    {flags: "avr", long: "--show-current --all --remotes", stream: true, folder: true},
		"git remote":    {flags: "v", stream: true, folder: true},
	}
	findTests = newWords("-name= -iname= -path= -ipath= -type= -maxdepth= -mindepth= -size= -mtime= -mmin= -empty -not -print -o -or -a -and -prune")
)

// listFiles returns the files that one program reads. Not ok: it may do more than read.
func listFiles(words []string) (files []string, ok bool) {
	name, words := words[0], words[1:]
	switch name {
	case "echo":
		return nil, true
	case "sed":
		if len(words) < 3 || words[0] != "-n" || !printedLines.MatchString(words[1]) || slices.ContainsFunc(words[2:], isFlag) {
			return nil, false
		}
		return words[2:], true
	case "find":
		return listFound(words)
	case "git":
		if len(words) > 0 && words[0] == "--no-pager" {
			words = words[1:]
		}
		if len(words) == 0 {
			return nil, false
		}
		name, words = "git "+words[0], words[1:]
	}
	r, known := readers[name]
	if !known {
		return nil, false
	}
	operands, globs, patterns, ok := r.readOptions(words)
	switch {
	case !ok:
		return nil, false
	case r.stream && strings.HasPrefix(name, "git ") && len(operands) > 0, name == "uniq" && len(operands) > 0: // they would write
		return nil, false
	case r.stream:
		operands = nil
	case patterns < r.words && len(operands) > 0:
		operands = operands[r.words-patterns:]
	case patterns < r.words:
		return nil, false
	}
	for _, operand := range operands {
		if !strings.HasPrefix(name, "git ") {
			files = append(files, operand)
			continue
		}
		revision, file, found := strings.Cut(operand, ":")
		if files = append(files, ancestor.ReplaceAllString(revision, "")); found {
			files = append(files, file)
		}
	}
	if len(operands) == 0 && r.folder {
		files = append(files, ".")
	}
	return append(files, globs...), true
}

// A plain glob finds files by their extension, such as **/*.go, or names one file. It finds no hidden file and no file of keys, which search
// programs would otherwise leave out. A glob is plain if PlainGlob matches it and SecretGlob does not.
const (
	PlainGlob  = `^(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*(?:\*\*/)*(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\*\.(?:[A-Za-z0-9]+|\{[A-Za-z0-9]+(?:,[A-Za-z0-9]+)*\}))$`
	SecretGlob = `(?i)(?:^|[.,{])(?:env|pem|key|p12|pfx|jks|keystore|kdbx)(?:$|[.,}])` //nolint:gosec // G101: names of files
)

var plainGlob, secretGlob = regexp.MustCompile(PlainGlob), regexp.MustCompile(SecretGlob)

// IsPlainGlob reports whether a glob is plain.
func IsPlainGlob(glob string) bool {
	return plainGlob.MatchString(glob) && !secretGlob.MatchString(glob)
}

func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

// readOptions takes the options off. It returns the operands, patterns of names, and how many options replace an operand before the files.
func (r reader) readOptions(words []string) (operands, globs []string, patterns int, ok bool) {
	long, named := newWords(r.long), newWords(r.globs)
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if word == "--" {
			return append(operands, words...), globs, patterns, true
		}
		if !isFlag(word) {
			operands = append(operands, word)
			continue
		}
		name, value, hasValue := strings.Cut(word, "=")
		if !strings.HasPrefix(word, "--") {
			name, value, hasValue = r.splitLetters(word)
			if name == "" {
				continue
			}
		}
		takesValue := long.hasWord(name+"=") || named.hasWord(name) || len(name) == 2 && strings.Contains(r.valued, name[1:])
		switch {
		case !takesValue && (hasValue || !long.hasWord(name)):
			return nil, nil, 0, false
		case takesValue && !hasValue && len(words) == 0:
			return nil, nil, 0, false
		case takesValue && !hasValue:
			value, words = words[0], words[1:]
		}
		switch {
		case name == "-e" || name == "--regexp" || name == "--files":
			patterns = r.words
		case named.hasWord(name) && !strings.HasPrefix(value, "!"):
			if !IsPlainGlob(value) {
				return nil, nil, 0, false
			}
			globs = append(globs, value)
		}
	}
	return operands, globs, patterns, true
}

// splitLetters reads letters behind one dash. The name is empty if all of them are options without a value; else it is the first one that is not.
func (r reader) splitLetters(word string) (name, value string, hasValue bool) {
	for i := 1; i < len(word); i++ {
		if strings.IndexByte(r.flags, word[i]) < 0 {
			return "-" + word[i:i+1], word[i+1:], i+1 < len(word)
		}
	}
	return "", "", false
}

// listFound returns where find searches. It refuses actions other than printing.
func listFound(words []string) (files []string, ok bool) {
	for len(words) > 0 && !isFlag(words[0]) {
		files, words = append(files, words[0]), words[1:]
	}
	for len(words) > 0 {
		switch {
		case findTests.hasWord(words[0]):
			words = words[1:]
		case findTests.hasWord(words[0]+"=") && len(words) > 1:
			words = words[2:]
		default:
			return nil, false
		}
	}
	if len(files) == 0 {
		files = []string{"."}
	}
	return files, true
}

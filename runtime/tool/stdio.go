package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/sandbox"
)

// Paths are the directories and files outside its home that a program may use.
type Paths struct {
	Read  []string `json:"read,omitempty" otherwise:"none" doc:"Paths that the program may read and run."` // and run
	Write []string `json:"write,omitempty" otherwise:"none" doc:"Paths that the program may also write."`  // and read
}

// None reports whether there are no paths.
func (p Paths) None() bool { return len(p.Read)+len(p.Write) == 0 }

// StdioPolicy says which programs skills may run on this server. It is set when the server starts, and the API cannot change it. The zero
// value allows nothing.
type StdioPolicy struct {
	On bool
	// Allow holds prefixes of commands, word by word. An empty prefix allows every command.
	Allow [][]string
	// Paths are the directories below which skills may declare paths.
	Paths []string
	// RunAs are the accounts that skills may name.
	RunAs []string
	// Keep are files and directories that no skill may reach: the data directory, key files, sockets.
	Keep []string
	// Hide are directories, such as the server's home, in which programs reach only declared paths.
	Hide []string
	// Limits bound each program together with its processes.
	Limits sandbox.Limits
	// Unsandboxed lets programs run without a sandbox where the kernel has none.
	Unsandboxed bool
}

// Lines returns the allowed commands, one per line.
func (p StdioPolicy) Lines() []string {
	lines := make([]string, len(p.Allow))
	for i, words := range p.Allow {
		lines[i] = QuoteWords(words)
		if len(words) == 0 {
			lines[i] = "any command"
		}
	}
	return lines
}

// StdioRefusal says why a skill may not run its program.
type StdioRefusal struct {
	Field   string // of the skill
	Message string // the reason, and the flag that allows it
	Flag    string // of serve, with its value; empty: no flag allows it
}

func (r StdioRefusal) Error() string { return r.Field + " " + r.Message }

// Check returns all reasons why a skill may not run with these settings. variables are the names of its environment variables.
func (p StdioPolicy) Check(command []string, runAs string, paths Paths, variables []string) []StdioRefusal {
	var refusals []StdioRefusal
	refuse := func(field, message, flag string) {
		refusals = append(refusals, StdioRefusal{field, message, flag})
	}
	allow := "--stdio-allow " + quoteWord(QuoteWords(command))
	switch {
	case !p.On:
		refuse("transport", "stdio is switched off on this server: start it with "+allow, allow)
	case !p.allowsCommand(command):
		refuse("command", "is not in the list of commands that this server may run: start it with "+allow, allow)
	}
	for _, name := range variables {
		if ChoosesCode(name) && !p.allowsCommand(nil) {
			refuse("env."+name, "chooses the code that the command runs: write it into the command, as in env "+name+"=VALUE PROGRAM, which the server then has to allow", "")
		}
	}
	if runAs != "" && !slices.Contains(p.RunAs, runAs) {
		flag := "--stdio-run-as " + quoteWord(runAs)
		refuse("run_as", "is not in the list of accounts that skills may use: start the server with "+flag, flag)
	}
	check := func(field string, list []string) {
		for i, path := range list {
			if message, flag := p.checkPath(path); message != "" {
				refuse(fmt.Sprintf("paths.%s[%d]", field, i), message, flag)
			}
		}
	}
	check("read", paths.Read)
	check("write", paths.Write)
	return refusals
}

func (p StdioPolicy) allowsCommand(command []string) bool {
	return slices.ContainsFunc(p.Allow, func(prefix []string) bool {
		return len(prefix) <= len(command) && slices.Equal(prefix, command[:len(prefix)])
	})
}

// ChoosesCode reports whether an environment variable makes common programs run other code than their command says. It would make every
// allowed command run anything.
func ChoosesCode(variable string) bool {
	variable = strings.ToUpper(variable) // npm reads its own in any case
	return slices.Contains(codeVariables, variable) ||
		slices.ContainsFunc(codePrefixes, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
}

var codeVariables = []string{ //nolint:gochecknoglobals // a table
	"PATH", "HOME", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "GCONV_PATH", "GLIBC_TUNABLES",
	"NODE_OPTIONS", "NODE_PATH", "NODE_COMPILE_CACHE",
	"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX",
	"PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "VIRTUAL_ENV",
	"RUBYOPT", "RUBYLIB", "PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "LUA_PATH", "LUA_CPATH",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES",
	"GOFLAGS", "GOPROXY", "GOPATH", "GOROOT", "GOENV", "GONOSUMDB", "GONOSUMCHECK", "GOSUMDB", "GOINSECURE", "GOTOOLCHAIN", "GOPRIVATE",
	// Certificates that a program trusts when it downloads code.
	"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_TLS_REJECT_UNAUTHORIZED",
}

var codePrefixes = []string{ //nolint:gochecknoglobals // a table
	"LD_", "DYLD_", "XDG_", "NPM_CONFIG_", "YARN_", "PNPM_", "BUN_", "DENO_", "UV_", "PIP_", "PIPX_", "GEM_", "BUNDLE_", "GIT_", "DOTNET_", "CORECLR_",
	"CARGO_", "RUSTUP_", "COREPACK_", "COMPOSER_", "POETRY_", "DOCKER_", "JULIA_", "ERL_",
}

// checkPath returns why a declared path is refused, and the flag that would allow it.
func (p StdioPolicy) checkPath(path string) (message, flag string) {
	if !filepath.IsAbs(path) {
		return "must be an absolute path", ""
	}
	resolved, err := RealPath(path)
	if err != nil {
		return "cannot be resolved: " + err.Error(), ""
	}
	for _, kept := range p.Keep {
		kept, err := RealPath(kept)
		if err != nil || Within(kept, resolved) || Within(resolved, kept) {
			return "must not contain, or be part of, the server's data directory, keys and sockets", ""
		}
	}
	for _, root := range p.Paths {
		root, err := RealPath(root)
		if err == nil && Within(root, resolved) {
			return "", ""
		}
	}
	flag = "--stdio-paths " + quoteWord(resolved)
	return "is not below a folder that skills may use: start the server with " + flag, flag
}

// RealPath resolves symbolic links. The last elements of the path may not exist.
func RealPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return resolved, err
	}
	parent, err := RealPath(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// Within reports whether path is dir or below it. Both must be clean.
func Within(dir, path string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// QuoteWords returns a command as a line that [SplitWords] and a shell split into the same words.
func QuoteWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quoteWord(word)
	}
	return strings.Join(quoted, " ")
}

func quoteWord(word string) string {
	plain := func(r rune) bool {
		return r < 0x80 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./@:=,+%^", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// SplitWords splits a command as a shell does, without expansions.
func SplitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%q: a quote or a backslash is not closed", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, fmt.Errorf("%q: must be a program, with arguments if only these are allowed", line)
	}
	return words, nil
}

// RefusedSkill is a registered skill whose program may not be run.
type RefusedSkill struct {
	Name   string
	Reason string
	Flags  []string // of serve that allow it
}

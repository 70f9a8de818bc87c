package guard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/approval/rule"
)

// Imported are rules of Holdpoint that say what a host's own permission files say, or less. No rule allows a call that its source would not
// have allowed.
type Imported struct {
	Rules []ImportedRule
	// Notes name the permissions that were left out, with the reason.
	Notes []string
}

// ImportedRule is a rule and the text that it was made of.
type ImportedRule struct {
	rule.Spec
	Source string
}

// Importer translates permissions.
type Importer struct {
	Agent string
	Skill string
	Home  string
	// Projects are the folders to which relative paths belong.
	Projects []string

	result       Imported
	refusesPaths bool
}

// Result returns the rules so far. A refusal of a command is only certain where it begins a command, so commands that have it elsewhere wait, if
// there are commands that pass.
func (im *Importer) Result() *Imported {
	allowsCommands := slices.ContainsFunc(im.result.Rules, func(r ImportedRule) bool { return r.Effect == rule.Allow && strings.Contains(r.When, "args.command") })
	result := Imported{Notes: im.result.Notes}
	if allowsCommands && im.refusesPaths {
		result.Notes = append(slices.Clone(result.Notes), "Commands that pass may read and write the files whose paths are refused: rules know the text of a command, not the files that it opens")
	}
	known := map[string]bool{} // by what a rule says
	for _, r := range im.result.Rules {
		content := strings.Join(append(slices.Clone(r.Tools), r.When, string(r.Effect)), "\n")
		if known[content] || strings.HasSuffix(r.Source, hiddenSource) && !allowsCommands {
			continue
		}
		known[content] = true
		r.Source = strings.TrimSuffix(r.Source, hiddenSource)
		result.Rules = append(result.Rules, r)
	}
	return &result
}

// hiddenSource marks rules that only matter beside rules that allow commands.
const hiddenSource = " (elsewhere in a command)"

func (im *Importer) notef(source, format string, args ...any) {
	im.result.Notes = append(im.result.Notes, source+": "+fmt.Sprintf(format, args...))
}

// leaveOutf leaves out an allow that cannot be said. A refusal stays: all calls of its tools wait, because broader permissions may allow them.
func (im *Importer) leaveOutf(source string, effect rule.Effect, tools []string, format string, args ...any) {
	problem := fmt.Sprintf(format, args...)
	if effect == rule.Allow {
		im.notef(source, "left out: %s", problem)
		return
	}
	im.notef(source, "each call of %s waits, because this refusal cannot be said as a condition: %s", strings.Join(tools, ", "), problem)
	im.add(source, rule.Park, tools, "")
}

// add makes a rule. Its name comes from its content, so that the same source gives the same rule again.
func (im *Importer) add(source string, effect rule.Effect, tools []string, when string) {
	sum := sha256.Sum256([]byte(im.Agent + "\n" + im.Skill + "\n" + strings.Join(tools, ",") + "\n" + when + "\n" + string(effect)))
	_, text, _ := strings.Cut(source, ": ")
	slug := strings.Trim(notName.ReplaceAllString(strings.ToLower(strings.TrimSuffix(text, hiddenSource)), "-"), "-.")
	spec := rule.Spec{
		Name:   fmt.Sprintf("import-%s-%s-%s-%s", im.Agent[:min(len(im.Agent), 25)], effect, slug[:min(len(slug), 50)], hex.EncodeToString(sum[:3])),
		Agents: []string{im.Agent}, Skills: []string{im.Skill}, Tools: tools, When: when, Effect: effect,
	}
	if effect == rule.Deny {
		spec.Message = "The permissions of this machine refuse this call. A path must be written without .., . and //."
		if !strings.Contains(when, "args.file_path") {
			spec.Message = "The permissions of this machine refuse this call."
		}
	}
	im.result.Rules = append(im.result.Rules, ImportedRule{Spec: spec, Source: source})
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// ClaudeCode translates a settings file of Claude Code. A project's file is in the folder .claude of the project; that of a user belongs to none.
func (im *Importer) ClaudeCode(file string, text []byte) error {
	parsed, err := parseJSON(text, false)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var permissions struct {
		Allow, Ask, Deny      []string
		AdditionalDirectories []string
		DefaultMode           string
	}
	if _, err := parsed.decode(&permissions, "permissions"); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, list := range []struct {
		effect rule.Effect
		texts  []string
	}{{rule.Deny, permissions.Deny}, {rule.Park, permissions.Ask}, {rule.Allow, permissions.Allow}} {
		for _, text := range list.texts {
			im.importPermission(file, list.effect, strings.TrimSpace(text))
		}
	}
	if permissions.DefaultMode != "" && permissions.DefaultMode != "default" {
		im.notef(file+": defaultMode "+permissions.DefaultMode, "left out: rules decide about calls, and a mode about sessions")
	}
	for _, folder := range permissions.AdditionalDirectories {
		im.notef(file+": additionalDirectories "+folder, "left out: name it with --project if its files may be read")
	}
	return nil
}

var permissionForm = regexp.MustCompile(`^([A-Za-z_][\w*-]*)(?:\((.*)\))?$`)

func (im *Importer) importPermission(file string, effect rule.Effect, text string) {
	source := file + ": " + text
	parts := permissionForm.FindStringSubmatch(text)
	if parts == nil {
		name, _, _ := strings.Cut(text, "(")
		im.leaveOutf(source, effect, toolsOf(cmp.Or(strings.TrimSpace(name), "*")), "must be a tool, or a tool and a pattern in parentheses")
		return
	}
	tool, pattern := parts[1], parts[2]
	bare := !strings.Contains(text, "(") || pattern == "*" || pattern == "**" && tool != "Bash" || pattern == ":*" && tool == "Bash"
	isEdit := slices.Contains(editTools, tool)
	switch {
	case strings.HasPrefix(tool, "mcp__"):
		if strings.Contains(text, "(") {
			im.leaveOutf(source, effect, toolsOf(tool), "the pattern of a tool of MCP is not known")
			return
		}
		im.add(source, effect, toolsOf(tool), "")
	case tool == "Bash" && bare && effect == rule.Allow:
		im.notef(source, "left out: it would allow every command")
	case tool == "Bash" && !bare:
		im.importCommand(source, effect, pattern)
	case strings.Contains(tool, "*"):
		im.leaveOutf(source, effect, toolsOf(tool), "must be the name of one tool")
	case bare && isEdit && effect == rule.Allow:
		im.notef(source, "left out: it would allow edits of every file. Name folders, such as Edit(./src/**)")
	case bare && tool == "Read" && effect == rule.Allow:
		im.notef(source, "left out: it would allow every file of the machine. Name folders, such as Read(./**)")
	case bare:
		im.add(source, effect, toolsOf(tool), "")
	case tool == "Read" || tool == "Edit" || tool == "Write" || isEdit && effect != rule.Allow:
		im.importPath(source, file, effect, tool, pattern)
	case tool == "WebFetch" && strings.HasPrefix(pattern, "domain:"):
		im.importDomain(source, effect, strings.ToLower(strings.TrimPrefix(pattern, "domain:")))
	default:
		im.leaveOutf(source, effect, toolsOf(tool), "the pattern cannot be said as a condition")
	}
}

// editTools are the tools of Claude Code that edit files. A refusal of one is a refusal of all.
var editTools = []string{"Edit", "Write", "MultiEdit", "NotebookEdit"}

// toolsOf returns the tools that a permission of Claude Code is about. The name of a server of MCP stands for all its tools.
func toolsOf(tool string) []string {
	server, isMCP := strings.CutPrefix(tool, "mcp__")
	switch {
	case isMCP && !strings.Contains(server, "__") && !strings.Contains(server, "*"):
		return []string{tool + "__*"}
	case slices.ContainsFunc(editTools, func(edit string) bool { return matchesName(tool, edit) }):
		if slices.Contains(editTools, tool) {
			return editTools
		}
		return append([]string{tool}, editTools...)
	}
	return []string{tool}
}

// matchesName reports whether a name fits a pattern in which * stands for any characters.
func matchesName(pattern, name string) bool {
	expression := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
	return regexp.MustCompile(expression).MatchString(name)
}

var domainForm = regexp.MustCompile(`^(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*$`)

func (im *Importer) importDomain(source string, effect rule.Effect, name string) {
	if !domainForm.MatchString(name) {
		im.leaveOutf(source, effect, []string{"WebFetch"}, "must be a domain, or *. and a domain")
		return
	}
	when := "domain(args.url) == " + quoteCEL(name)
	if below, ok := strings.CutPrefix(name, "*"); ok {
		when = "domain(args.url).endsWith(" + quoteCEL(below) + ")"
		if effect != rule.Allow {
			when += " || domain(args.url) == " + quoteCEL(below[1:])
		}
	} else if effect != rule.Allow {
		when += " || domain(args.url).endsWith(" + quoteCEL("."+name) + ")"
	}
	im.add(source, effect, []string{"WebFetch"}, when)
}

// The words of a command that cannot begin another command, write a file or change what the words before them mean: no separators,
// substitutions, redirections, escapes and line breaks. A quoted text is a word of its own, or the value of an option.
const (
	safeCharacters = `\p{L}\p{N}_./:@%+,=~*?^#\[\]-`
	quotedWord     = `'[^'\x00-\x1f]*'|"[^"$\x60\\!\x00-\x1f]*"`
	safeWord       = `(?:[` + safeCharacters + `]+|(?:-[\w-]+=)?(?:` + quotedWord + `))`
	moreWords      = `(?: +` + safeWord + `)*`
)

var plainCommandWord = regexp.MustCompile(`^[` + safeCharacters + `]+$`)

// importCommand translates a pattern of commands of Claude Code: an exact command, a beginning with :*, or words with *.
func (im *Importer) importCommand(source string, effect rule.Effect, pattern string) {
	prefix, isPrefix := strings.CutSuffix(pattern, ":*")
	if !isPrefix && !strings.Contains(pattern, "*") && effect == rule.Allow {
		im.add(source, effect, []string{"Bash"}, "args.command == "+quoteCEL(pattern))
		return
	}
	words := strings.Fields(prefix)
	if isPrefix {
		words = append(words, "*")
	}
	im.addCommand(source, effect, "Bash", words)
}

// addCommand makes the rules for commands of words, in which * stands for any characters of a word, and at the end for any words.
func (im *Importer) addCommand(source string, effect rule.Effect, tool string, words []string) {
	if effect == rule.Allow {
		expression, problem := allowedCommand(words)
		if problem != "" {
			im.notef(source, "left out: %s", problem)
			return
		}
		im.add(source, effect, []string{tool}, "args.command.matches("+quoteCEL(expression)+")")
		return
	}
	var parts []string
	for i, word := range words {
		if word == "*" && i == len(words)-1 {
			break
		}
		parts = append(parts, strings.ReplaceAll(regexp.QuoteMeta(word), `\*`, `.*`))
	}
	if len(parts) == 0 {
		im.add(source, effect, []string{tool}, "")
		return
	}
	joined := strings.Join(parts, `\s+`)
	elsewhere := `(?s)(^|[^\w-])` + joined + `($|[^\w-])`
	if effect == rule.Park {
		im.add(source, rule.Park, []string{tool}, "args.command.matches("+quoteCEL(elsewhere)+")")
		return
	}
	begins := "(?s)(^|[;&|\\n(){}\\x60]|\\$\\()\\s*(\\w+=\\S*\\s+)*" + joined + `($|[\s;&|<>)}])`
	im.add(source, rule.Deny, []string{tool}, "args.command.matches("+quoteCEL(begins)+")")
	im.add(source+hiddenSource, rule.Park, []string{tool}, "args.command.matches("+quoteCEL(elsewhere)+")")
}

// allowedCommand returns the expression of the commands that words allow.
func allowedCommand(words []string) (expression, problem string) {
	var b strings.Builder
	b.WriteString("^")
	for i, word := range words {
		switch {
		case i == 0 && strings.Contains(word, "*"):
			return "", "the program must be named: a pattern that begins with * would allow every program"
		case !plainCommandWord.MatchString(word):
			return "", "a pattern must have no quotes and no characters with a meaning for the shell"
		case i == 0 && strings.Contains(word, "="):
			return "", "a pattern must begin with a program, not with a variable"
		case word == "*" && i == len(words)-1:
			b.WriteString(moreWords)
			continue
		case word == "*":
			b.WriteString(" +" + safeWord + moreWords)
			continue
		case i > 0:
			b.WriteString(" +")
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(word), `\*`, `[`+safeCharacters+`]*`))
	}
	if len(words) == 0 {
		return "", "the program must be named"
	}
	return b.String() + "$", ""
}

// protectedFiles is a pattern of the files that Claude Code asks about although a permission allows edits, and of those of other hosts.
const protectedFiles = `(?i)(^|/)(\.git|\.claude|\.codex|\.gemini|\.copilot|\.cursor|\.opencode|\.vscode|\.idea|\.husky|\.github|\.config|\.ssh|\.mcp\.json|\.gitconfig|\.gitmodules|\.ripgreprc|\.envrc|\.bashrc|\.bash_profile|\.profile|\.zshrc|\.zprofile|\.zshenv)(/|$)`

// importPath translates a pattern of files in the form of gitignore. Where it has two readings, an allow takes the narrow one and a refusal the
// wide one.
func (im *Importer) importPath(source, file string, effect rule.Effect, tool, pattern string) {
	tools := []string{"Edit", "Write"}
	if tool == "Read" {
		tools = []string{"Read"}
	}
	leave := func(problem string) {
		all := toolsOf(tool)
		if tool == "Read" {
			all = []string{"Read", "Grep"} // a search reads files too
		}
		im.refusesPaths = im.refusesPaths || effect != rule.Allow
		im.leaveOutf(source, effect, all, "%s", problem)
	}
	var bases []string
	rest, folder, anywhere := pattern, path.Dir(file), false
	switch {
	case strings.HasPrefix(pattern, "!"):
		leave("exceptions cannot be said")
		return
	case strings.HasPrefix(pattern, "//"):
		bases, rest = []string{""}, pattern[1:]
	case strings.HasPrefix(pattern, "~/"):
		bases, rest = []string{im.Home}, pattern[1:]
	case strings.HasPrefix(pattern, "~"):
		leave("the home folder must be written as ~/")
		return
	case strings.HasPrefix(pattern, "/") && path.Base(folder) != ".claude":
		leave("a path with one slash is relative to the folder of .claude, and this file is in none. Write // for an absolute path")
		return
	case strings.HasPrefix(pattern, "/") && folder == path.Join(im.Home, ".claude"): // of a user's file, Claude Code's versions differ
		if effect == rule.Allow {
			leave("a path with one slash is relative, to folders that differ between versions. Write // for an absolute path")
			return
		}
		bases = append(slices.Clone(im.Projects), folder)
	case strings.HasPrefix(pattern, "/"):
		bases = []string{path.Dir(folder)}
	case strings.HasPrefix(pattern, "./"):
		bases, rest, anywhere = im.Projects, pattern[1:], effect != rule.Allow
	default:
		bases, rest = im.Projects, "/"+pattern
		anywhere = effect != rule.Allow || !strings.Contains(strings.TrimSuffix(pattern, "/"), "/") // a slash in the middle binds it to the folder
	}
	if strings.Contains(rest, "..") || strings.ContainsAny(rest, `\{}[]"`) {
		leave("must have no .., braces, brackets and escapes")
		return
	}
	expression := globExpression(strings.Trim(rest, "/"))
	switch {
	case expression == "":
		leave("must name files")
	case effect == rule.Allow:
		im.allowPath(source, tools, bases, expression, anywhere, tool != "Read")
	default:
		im.refusesPaths = true
		im.refusePath(source, effect, tools, bases, expression, anywhere || len(bases) == 0)
	}
}

// globExpression writes a pattern of gitignore as a regular expression.
func globExpression(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c >= 0x80:
			b.WriteByte(c)
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}

// allowPath lets files pass whose text says certainly where they are, and that are there after the hook followed all links.
func (im *Importer) allowPath(source string, tools, bases []string, expression string, anywhere, edits bool) {
	if len(bases) == 0 {
		im.notef(source, "left out: it is relative to the project. Name it with --project")
		return
	}
	certainly := func(file string) string {
		var alternatives []string
		for _, base := range bases {
			depth := ""
			if anywhere {
				depth = "(?:.*/)?"
			}
			alternatives = append(alternatives, fmt.Sprintf("(within(%[1]s, %[2]s) && %[1]s.matches(%[3]s))", file, quoteCEL(cmp.Or(base, "/")),
				quoteCEL("^"+regexp.QuoteMeta(base)+"/"+depth+expression+"$")))
		}
		condition := "(" + strings.Join(alternatives, " || ") + ")"
		if edits {
			condition += " && !" + file + ".matches(" + quoteCEL(protectedFiles) + ")"
		}
		return condition
	}
	when := `!args.file_path.matches(r"(^|/)\.{1,2}(/|$)|//") && ` + certainly("args.file_path") + " && has(context.paths) && context.paths.all(p, " + certainly("p") + ")"
	im.add(source, rule.Allow, tools, when)
}

// refusePath refuses files, what is below them, and links to them. A path that is written in a roundabout way is refused too. Files differ only by
// upper and lower case on some systems, so case does not matter.
func (im *Importer) refusePath(source string, effect rule.Effect, tools, bases []string, expression string, anywhere bool) {
	start := "(^|/)"
	if !anywhere {
		var starts []string
		for _, base := range bases {
			starts = append(starts, regexp.QuoteMeta(base)+"/")
		}
		start = "^(" + strings.Join(starts, "|") + ")"
	}
	refused := ".matches(" + quoteCEL("(?is)"+start+expression+`(/|$)|(^|/)\.{1,2}(/|$)|//|\\`) + ")"
	when := "args.file_path" + refused + " || has(context.paths) && context.paths.exists(p, p" + refused + ")"
	if tools[0] == "Read" {
		im.add(source, effect, tools, when)
		im.add(source+hiddenSearch, rule.Park, []string{"Grep"}, "") // a search below a folder above reads the files too
		return
	}
	im.add(source, effect, []string{"Edit", "Write", "MultiEdit"}, when)
	im.add(source+hiddenNotebook, rule.Park, []string{"NotebookEdit"}, "")
}

// hiddenSearch marks the rule for searches.
const hiddenSearch = " (searches could read it)"

// hiddenNotebook marks the rule for edits of notebooks, which name their file in another argument.
const hiddenNotebook = " (notebooks have another argument)"

// onLine makes a comment of a text from a file that anyone may have written.
func onLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// YAML writes the rules as the section rules of holdpoint.yaml.
func (im *Imported) YAML() string {
	var b strings.Builder
	for _, note := range im.Notes {
		b.WriteString("# " + onLine(note) + "\n")
	}
	b.WriteString("rules:")
	if len(im.Rules) == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	for _, r := range im.Rules {
		fmt.Fprintf(&b, "  # %s\n  - name: %s\n    agents: [%s]\n    skills: [%s]\n", onLine(r.Source), r.Name, quoteYAML(r.Agents[0]), quoteYAML(r.Skills[0]))
		tools := make([]string, len(r.Tools))
		for i, tool := range r.Tools {
			tools[i] = quoteYAML(tool)
		}
		fmt.Fprintf(&b, "    tools: [%s]\n", strings.Join(tools, ", "))
		if r.When != "" {
			fmt.Fprintf(&b, "    when: %s\n", quoteYAML(r.When))
		}
		fmt.Fprintf(&b, "    effect: %s\n", r.Effect)
		if r.Message != "" {
			fmt.Fprintf(&b, "    message: %s\n", quoteYAML(r.Message))
		}
	}
	return b.String()
}

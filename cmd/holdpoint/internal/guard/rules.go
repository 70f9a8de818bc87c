package guard

import (
	"embed"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/typed"
)

//go:embed rules/*.yaml
var starterFiles embed.FS

// RulesVersion is the version of the starter rules.
const RulesVersion = 2

// maxRuleWords is how long an agent and a skill may be in the names of rules.
const maxRuleWords = 80

// secretFiles is a pattern of the paths of files that often hold secrets. A name may have a slash after it: within cleans a path, this reads its text.
const secretFiles = `(?i)(^|/)(\.env[^/]*|[^/]*\.(pem|key|p12|pfx|jks|keystore|kdbx)|id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|credentials(\.json)?|\.ssh|\.aws|\.gnupg|\.git)(/|$)` //nolint:gosec // G101: names of files

// relativePatterns is a pattern of the patterns of file names that stay below the folder in which they are looked for: without .., a root, a
// drive, a home folder or an alternative that could become one of them.
const relativePatterns = `^(?:[\w.*?@+=#, -]|\{[\w*-][\w.*-]*(?:,[\w*-][\w.*-]*)*\}|\[[\w-]+\])(?:[\w.*?@+=#, /-]|\{[\w*-][\w.*-]*(?:,[\w*-][\w.*-]*)*\}|\[[\w-]+\])*$`

var secretFile = regexp.MustCompile(secretFiles)

// HoldsSecrets reports whether the name of a file says that it often holds secrets.
func HoldsSecrets(path string) bool { return secretFile.MatchString(filepath.ToSlash(path)) }

var macro = regexp.MustCompile(`(!?)(FOLDER|SECRET|PATTERN|GLOB)\(([a-zA-Z_.]+)\)`)

// StarterRules returns the starter rules of a host as the section rules of holdpoint.yaml: for one agent and one skill, and for the folders that are projects.
// Without a project, nothing that names a path passes.
func StarterRules(host Host, agent, skill string, projects []string) (string, error) {
	text, err := starterFiles.ReadFile("rules/" + string(host) + ".yaml")
	if err != nil {
		return "", fmt.Errorf("starter rules of %s: %w", host, err)
	}
	if !plain.IsName(skill) {
		return "", fmt.Errorf("skill %q: %s", skill, plain.NameForm)
	}
	if !plain.IsName(agent) {
		return "", fmt.Errorf("agent %q: %s", agent, plain.NameForm)
	}
	if len(agent)+len(skill) > maxRuleWords {
		return "", fmt.Errorf("agent %s, skill %s: must have at most %d characters together, because the names of rules have both", agent, skill, maxRuleWords)
	}
	for _, project := range projects {
		if !path.IsAbs(project) || path.Clean(project) != project || project == "/" {
			return "", fmt.Errorf("project %q: must be an absolute path of a folder other than /", project)
		}
	}
	const begin, when = "  - name: ", "    when: "
	// Before the paths are there, which may have these words.
	named := strings.NewReplacer("AGENT", agent, "SKILL", skill, "CANARY", CanaryText, "MESSAGE", CanaryMessage).Replace(string(text))
	var kept []string
	for i, block := range strings.Split(named, begin) {
		block = shorthand.ReplaceAllStringFunc(block, expandShorthand)
		if len(projects) == 0 && strings.Contains(block, "FOLDER(") {
			continue
		}
		lines := strings.Split(block, "\n")
		for n, line := range lines {
			if condition, ok := strings.CutPrefix(line, when); ok {
				lines[n] = when + quoteYAML(expandMacros(condition, projects))
			}
		}
		if block = strings.Join(lines, "\n"); i > 0 {
			block = begin + block
		}
		kept = append(kept, block)
	}
	return strings.Join(kept, ""), nil
}

var shorthand = regexp.MustCompile(`\b(?:HERE|LINKS)\b|\b(?:PLACE|READING)\([a-zA-Z_.]+\)`)

// expandShorthand writes a part of a condition in simpler macros. The text of an argument says where it leads; the paths of the caller say
// where the links lead.
func expandShorthand(text string) string {
	name, arg, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	switch name {
	case "HERE":
		return "(has(context.cwd) && FOLDER(context.cwd))"
	case "LINKS":
		return "has(context.paths) && context.paths.all(p, FOLDER(p) && !SECRET(p))"
	case "READING":
		return "size(filesRead(" + arg + ")) > 0 && filesRead(" + arg + ").all(f, " + expandShorthand("PLACE(f)") + " && !SECRET(f))"
	}
	return "(" + arg + `.startsWith("/") ? FOLDER(` + arg + ") : PATTERN(" + arg + ") && " + expandShorthand("HERE") + ")"
}

// expandMacros writes a condition of a starter rule in CEL.
func expandMacros(condition string, projects []string) string {
	return macro.ReplaceAllStringFunc(condition, func(text string) string {
		parts := macro.FindStringSubmatch(text)
		not, name, arg := parts[1], parts[2], parts[3]
		var b strings.Builder
		switch name {
		case "SECRET":
			fmt.Fprintf(&b, "%s.matches(%s)", arg, quoteCEL(secretFiles))
		case "GLOB":
			fmt.Fprintf(&b, "%s.matches(%s) && !%s.matches(%s)", arg, quoteCEL(typed.PlainGlob), arg, quoteCEL(typed.SecretGlob))
		case "PATTERN":
			fmt.Fprintf(&b, "%s.matches(%s) && !%s.contains(\"..\")", arg, quoteCEL(relativePatterns), arg)
		default:
			for i, project := range projects {
				if i > 0 {
					b.WriteString(" || ")
				}
				fmt.Fprintf(&b, "%[1]s == %[2]s || within(%[1]s, %[2]s)", arg, quoteCEL(project))
			}
		}
		return not + "(" + b.String() + ")"
	})
}

// quoteCEL writes a text as a literal of CEL.
func quoteCEL(text string) string {
	if !strings.ContainsAny(text, "\\\"\n\r\t") && isPrintable(text) {
		return `"` + text + `"`
	}
	if strings.Contains(text, `\`) && !strings.ContainsAny(text, "\"\n\r") && isPrintable(text) && !strings.HasSuffix(text, `\`) {
		return `r"` + text + `"`
	}
	return strconv.Quote(text)
}

func isPrintable(text string) bool {
	for _, r := range text {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// quoteYAML writes a text in single quotes.
func quoteYAML(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

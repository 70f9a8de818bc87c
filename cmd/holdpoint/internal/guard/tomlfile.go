package guard

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// The lines of a TOML file that belong to the guard. Removing them takes the guard out.
const (
	blockBegin = "# Holdpoint guard: begin"
	blockEnd   = "# Holdpoint guard: end"
	lineMark   = " # Holdpoint guard"
)

// tomlSetting is one value that the guard needs in a table.
type tomlSetting struct {
	table, key string // table "": the top
	value      any    // bool or string
}

// errTables is a file whose tables are written in a way that lines cannot be added to.
var errTables = errors.New("must have its tables as [name] and its hooks as [[hooks.EVENT]], not inline")

// tomlHook is a hook of an event.
type tomlHook struct {
	event, command string
	timeout        int
}

// readTOML reads a file into maps.
func readTOML(text []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: %s", line, column, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, errors.New(strings.TrimPrefix(err.Error(), "toml: "))
	}
	return values, nil
}

// editTOML adds settings as lines and the hook as a block at the end, after it took out those of an earlier guard. All other lines stay.
// The result is read again: it must have the settings, and the rest of the file must mean what it meant before.
func editTOML(text []byte, settings []tomlSetting, hooks []tomlHook) ([]byte, error) {
	if _, err := readTOML(text); err != nil {
		return nil, err
	}
	lines := stripTOML(text)
	expected, err := readTOML(joinLines(lines))
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		table := expected
		if s.table != "" {
			if expected[s.table] == nil {
				expected[s.table] = map[string]any{}
			}
			inner, ok := expected[s.table].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: must be a table", s.table)
			}
			table = inner
		}
		if present, ok := table[s.key]; ok {
			if present != s.value {
				return nil, fmt.Errorf("%s: must be %v, and is %v: change it yourself, because the guard keeps values that it did not write", strings.TrimPrefix(s.table+"."+s.key, "."), s.value, present)
			}
			continue
		}
		table[s.key] = s.value
		lines = insertSetting(lines, s)
	}
	if n := len(lines); n > 0 && strings.TrimSpace(lines[n-1]) != "" {
		lines = append(lines, "")
	}
	lines = append(lines, blockBegin)
	for _, h := range hooks {
		lines = append(lines, "[[hooks."+h.event+"]]", "[[hooks."+h.event+".hooks]]", `type = "command"`, "command = "+quoteTOML(h.command),
			fmt.Sprintf("timeout = %d", h.timeout))
	}
	lines = append(lines, blockEnd)
	result := joinLines(lines)
	after, err := readTOML(result)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTables, err)
	}
	table, _ := expected["hooks"].(map[string]any)
	if table == nil {
		table = map[string]any{}
		expected["hooks"] = table
	}
	for _, h := range hooks {
		present, _ := table[h.event].([]any)
		one := map[string]any{"type": "command", "command": h.command, "timeout": int64(h.timeout)}
		table[h.event] = append(slices.Clone(present), map[string]any{"hooks": []any{one}})
	}
	if !reflect.DeepEqual(after, expected) {
		return nil, errTables
	}
	return result, nil
}

// insertSetting inserts the line of a setting below the header of its table, or makes the table.
func insertSetting(lines []string, s tomlSetting) []string {
	value := fmt.Sprint(s.value)
	if text, ok := s.value.(string); ok {
		value = quoteTOML(text)
	}
	line := s.key + " = " + value + lineMark
	if s.table == "" {
		return slices.Insert(lines, 0, line)
	}
	for i, text := range lines {
		header, _, _ := strings.Cut(text, "#")
		if header = strings.Join(strings.Fields(header), ""); header == "["+s.table+"]" {
			return slices.Insert(lines, i+1, line)
		}
	}
	if n := len(lines); n > 0 && strings.TrimSpace(lines[n-1]) != "" {
		lines = append(lines, "")
	}
	if slices.ContainsFunc(lines, func(text string) bool { return strings.HasPrefix(text, s.table+".") }) { // a table of dotted names
		return slices.Insert(lines, 0, s.table+"."+line)
	}
	return append(lines, "["+s.table+"]"+lineMark, line)
}

// stripTOML returns the lines of a file without those of the guard. The header of a table that the guard made stays if others wrote below it.
func stripTOML(text []byte) []string {
	var kept []string
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	inside := false
	for i, line := range lines {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == blockBegin:
			inside = true
		case trimmed == blockEnd:
			inside = false
		case inside:
		case !strings.HasSuffix(trimmed, lineMark):
			kept = append(kept, line)
		case strings.HasPrefix(trimmed, "[") && hasOtherLines(lines[i+1:]):
			kept = append(kept, strings.TrimSuffix(trimmed, lineMark))
		}
	}
	for len(kept) > 0 && strings.TrimSpace(kept[len(kept)-1]) == "" {
		kept = kept[:len(kept)-1]
	}
	return kept
}

// hasOtherLines reports whether a table has values that are not the guard's.
func hasOtherLines(below []string) bool {
	for _, line := range below {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == blockBegin, strings.HasPrefix(trimmed, "["):
			return false
		case trimmed != "" && !strings.HasPrefix(trimmed, "#") && !strings.HasSuffix(trimmed, lineMark):
			return true
		}
	}
	return false
}

// removeTOML takes the guard's lines out of a file. A table that the guard made, and that has other lines now, stays.
func removeTOML(text []byte) ([]byte, error) {
	result := joinLines(stripTOML(text))
	if _, err := readTOML(result); err != nil {
		return nil, fmt.Errorf("without the guard's lines: %w", err)
	}
	return result, nil
}

func joinLines(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// quoteTOML writes a text as a basic string.
func quoteTOML(text string) string {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// findTOMLHooks returns the hooks of an event in the form that JSON files have too.
func findTOMLHooks(values map[string]any, event string) []map[string]any {
	hooks, _ := values["hooks"].(map[string]any)
	groups, _ := hooks[event].([]any)
	var found []map[string]any
	for _, group := range groups {
		table, _ := group.(map[string]any)
		inner, _ := table["hooks"].([]any)
		for _, hook := range inner {
			if one, ok := hook.(map[string]any); ok {
				one = maps.Clone(one)
				if matcher, ok := table["matcher"]; ok {
					one["matcher"] = matcher
				}
				found = append(found, one)
			}
		}
	}
	return found
}

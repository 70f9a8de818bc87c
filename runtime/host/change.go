package host

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Change is what a call that edits or writes a file does to its content.
type Change struct {
	Before, After string
	Whole         bool // they are the whole file; otherwise only the texts that are replaced
	Absent        int  // texts to replace that the file does not have
	Repeated      int  // texts to replace that it has more than once, although the call replaces one
}

// replacement is one text that a call replaces.
type replacement struct {
	old, new string
	all      bool
}

// PreviewChange returns what a call would do to a file. Content is the file before; nil: it is not known. Of a patch of several files, it returns
// the texts that the patch replaces. Not ok: the call is none of a host's built-in tools that edit or write files, or its arguments have another form.
func PreviewChange(name, tool string, arguments json.RawMessage, content *string) (c Change, ok bool) {
	hook := FindHook(name)
	if hook == nil {
		return c, false
	}
	given, err := readTexts(arguments)
	if err != nil {
		return c, false
	}
	if tool == patchTool && hook.findTool(tool) != nil {
		return previewPatch(readPatchText(given), content)
	}
	if hook.NameChanged(&Event{Tool: tool, Arguments: arguments}) == "" {
		return c, false
	}
	t := hook.findTool(tool)
	for _, name := range []string{"content", "file_text"} {
		if t.takes(name) && len(given[name]) == 1 && content != nil {
			return Change{Before: *content, After: given[name][0], Whole: true}, true
		}
	}
	replacements := t.readReplacements(arguments)
	if len(replacements) == 0 {
		return c, false
	}
	if content == nil {
		for _, r := range replacements {
			c.Before, c.After = c.Before+r.old+"\n", c.After+r.new+"\n"
		}
		return c, true
	}
	c.Before, c.After, c.Whole = *content, *content, true
	compared := 0
	for _, r := range replacements {
		if compared += len(c.After); compared > maxCompared {
			return Change{}, false
		}
		switch n := strings.Count(c.After, r.old); {
		case r.old == "" && c.After == "": // some hosts write a new file so
			c.After = r.new
			continue
		case r.old == "" || n == 0:
			c.Absent++
			continue
		case n > 1 && !r.all:
			c.Repeated++
		}
		times := 1
		if r.all {
			times = -1
		}
		if c.After = strings.Replace(c.After, r.old, r.new, times); len(c.After) > maxChanged {
			return Change{}, false
		}
	}
	return c, true
}

const (
	// MaxFileText is the number of bytes of the longest file that a caller may send with a call.
	MaxFileText = 64 << 10
	// maxChanged is the number of bytes of the longest content that a preview has.
	maxChanged = 4 << 20
	// maxCompared bounds the bytes in which the texts to replace are looked for.
	maxCompared = 16 << 20
)

// readReplacements returns the texts that the arguments replace. Hosts ignore arguments that they do not know, so only those of the tool count.
func (t *nativeTool) readReplacements(arguments json.RawMessage) []replacement {
	if !t.takes("edits") {
		if r, ok := readReplacement(arguments, t.takes); ok {
			return []replacement{r}
		}
		return nil
	}
	var edits []json.RawMessage
	for m, err := range rawjson.Members([]byte(arguments)) {
		if err != nil || m.Name() == "edits" && json.Unmarshal(m.Value, &edits) != nil {
			return nil
		}
	}
	one := FindHook(ClaudeCode).findTool("Edit") // whose arguments each edit has
	var list []replacement
	for _, edit := range edits {
		r, ok := readReplacement(edit, one.takes)
		if !ok {
			return nil
		}
		list = append(list, r)
	}
	return list
}

// readReplacement reads a replacement from the arguments that a tool takes.
func readReplacement(edit json.RawMessage, takes func(names ...string) bool) (r replacement, ok bool) {
	hasOld, hasNew := false, false
	for m, err := range rawjson.Members([]byte(edit)) {
		if err != nil {
			return r, false
		}
		text := ""
		if m.Value.Kind() == '"' {
			text = rawjson.Unquote(m.Value)
		}
		switch name := m.Name(); {
		case !takes(name):
		case slices.Contains([]string{"old_string", "old_str", "oldString"}, name):
			r.old, hasOld = text, m.Value.Kind() == '"'
		case slices.Contains([]string{"new_string", "new_str", "newString"}, name):
			r.new, hasNew = text, m.Value.Kind() == '"'
		case name == "replace_all" || name == "replaceAll":
			r.all = m.Value.Kind() == 't'
		}
	}
	return r, hasOld && hasNew
}

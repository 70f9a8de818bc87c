package host

import (
	"slices"
	"strings"
	"unicode"
)

// patchTool is the tool of Codex and OpenCode that changes files by a patch of Codex's own form.
const patchTool = "apply_patch"

// patchedFile is what a patch does to one file.
type patchedFile struct {
	action  string // "Add", "Update" or "Delete"
	path    string
	movedTo string // "": it keeps its path
	atEnd   bool   // a hunk is for the end of the file
	hunks   []patchHunk
}

// listHeaders returns the lines that say what happens to the file.
func (f *patchedFile) listHeaders() []string {
	lines := []string{"*** " + f.action + " File: " + f.path}
	if f.movedTo != "" {
		lines = append(lines, "*** Move to: "+f.movedTo)
	}
	return lines
}

// patchHunk is a place that a patch changes.
type patchHunk struct {
	context  []string // lines that stand before it, not necessarily right before
	old, new []string
}

// readPatch reads a patch. Not ok: hosts could read it in different ways. So lines that a host might take for a header, and forms
// that only some versions take, are refused.
func readPatch(text string) (files []patchedFile, ok bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	last := len(lines) - 1
	if last < 1 || lines[0] != "*** Begin Patch" || lines[last] != "*** End Patch" {
		return nil, false
	}
	for _, line := range lines[1:last] {
		switch {
		case looksLikeHeader(line):
			if files, ok = addHeader(files, line); !ok {
				return nil, false
			}
		case len(files) == 0 || !files[len(files)-1].addLine(line):
			return nil, false
		}
	}
	return files, len(files) > 0
}

// looksLikeHeader reports whether any host could take a line for a header.
func looksLikeHeader(line string) bool {
	return strings.HasPrefix(strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }), "***")
}

// addHeader starts the file that a header names, or adds what the header says of the last one.
func addHeader(files []patchedFile, line string) ([]patchedFile, bool) {
	if line == "*** End of File" {
		if len(files) == 0 || files[len(files)-1].action != "Update" {
			return nil, false
		}
		files[len(files)-1].atEnd = true
		return files, true
	}
	head, path, _ := strings.Cut(line, ": ")
	if path == "" || path != strings.TrimSpace(path) || strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || r == '\ufeff' }) {
		return nil, false
	}
	switch head {
	case "*** Add File", "*** Update File", "*** Delete File":
		return append(files, patchedFile{action: strings.Fields(head)[1], path: path}), true
	case "*** Move to":
		if i := len(files) - 1; i >= 0 && files[i].action == "Update" && files[i].movedTo == "" && len(files[i].hunks) == 0 {
			files[i].movedTo = path
			return files, true
		}
	}
	return nil, false
}

// addLine adds a line that is no header.
func (f *patchedFile) addLine(line string) bool {
	if f.action == "Delete" || f.action == "Add" && !strings.HasPrefix(line, "+") {
		return false
	}
	if context, isContext := strings.CutPrefix(line, "@@"); isContext {
		if context != "" && context[0] != ' ' {
			return false
		}
		if i := len(f.hunks) - 1; i < 0 || len(f.hunks[i].old)+len(f.hunks[i].new) > 0 {
			f.hunks = append(f.hunks, patchHunk{})
		}
		if context != "" {
			hunk := &f.hunks[len(f.hunks)-1]
			hunk.context = append(hunk.context, context[1:])
		}
		return true
	}
	if len(f.hunks) == 0 {
		f.hunks = append(f.hunks, patchHunk{})
	}
	hunk := &f.hunks[len(f.hunks)-1]
	sign, rest := byte(' '), "" // an empty line is one of the file
	if line != "" {
		sign, rest = line[0], line[1:]
	}
	switch sign {
	case ' ':
		hunk.old, hunk.new = append(hunk.old, rest), append(hunk.new, rest)
	case '-':
		hunk.old = append(hunk.old, rest)
	case '+':
		hunk.new = append(hunk.new, rest)
	default:
		return false
	}
	return true
}

// namePatched returns the files that a patch names. A file that is deleted or moved names its folder too: if its path is a link, the link goes.
// Nil: they are not known.
func namePatched(patch string) (paths []string) {
	files, _ := readPatch(patch)
	for _, f := range files {
		paths = append(paths, f.path)
		if f.movedTo != "" {
			paths = append(paths, f.movedTo)
		}
		if f.movedTo != "" || f.action == "Delete" {
			paths = append(paths, folderOf(f.path))
		}
	}
	return paths
}

func folderOf(path string) string {
	switch i := strings.LastIndexByte(path, '/'); i {
	case -1:
		return "."
	case 0:
		return "/"
	default:
		return path[:i]
	}
}

// maxMatched bounds the lines that are compared to find the places of a patch.
const maxMatched = 5_000_000

// previewPatch returns what a patch would do to its only file. If there are several, or hosts could find other places, it returns the texts that
// the patch replaces.
func previewPatch(patch string, content *string) (c Change, ok bool) {
	files, ok := readPatch(patch)
	if !ok {
		return c, false
	}
	if f := &files[0]; len(files) == 1 && content != nil && f.movedTo == "" && !f.atEnd {
		c = Change{Before: *content, Whole: true}
		found := true
		switch f.action {
		case "Add":
			c.After = joinLines(f.addedLines())
		case "Update":
			c.After, found = f.applyHunks(*content, &c)
		}
		if found {
			return c, len(c.After) <= maxChanged
		}
	}
	c = comparePatched(files)
	return c, c.Before != c.After
}

// comparePatched compares the texts of a patch that has no content to be compared with.
func comparePatched(files []patchedFile) (c Change) {
	var before, after []string
	for _, f := range files {
		if len(files) > 1 || f.movedTo != "" {
			after = append(after, f.listHeaders()...)
		}
		for _, hunk := range f.hunks {
			before, after = append(before, hunk.old...), append(after, hunk.new...)
		}
	}
	return Change{Before: joinLines(before), After: joinLines(after)}
}

func (f *patchedFile) addedLines() (lines []string) {
	for _, hunk := range f.hunks {
		lines = append(lines, hunk.new...)
	}
	return lines
}

// joinLines ends each line.
func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// applyHunks returns the file after all hunks that are found in it, in order. Not ok: hosts could find other places, or it takes too long.
func (f *patchedFile) applyHunks(content string, c *Change) (after string, ok bool) {
	lines, from, size := splitLines(content), 0, 0
	for _, hunk := range f.hunks {
		size += len(hunk.context) + len(hunk.old) + len(hunk.new)
	}
	if size*(len(lines)+size) > maxMatched {
		return "", false
	}
	for i, hunk := range f.hunks {
		for _, context := range hunk.context {
			at := findLines(lines, []string{context}, from)
			if at < 0 {
				return "", false
			}
			from = at + 1
		}
		at := len(lines) // lines that are only added go to the end
		if len(hunk.old) == 0 && i < len(f.hunks)-1 {
			return "", false
		}
		if len(hunk.old) > 0 {
			if at = findLines(lines, hunk.old, from); at < 0 {
				c.Absent++
				continue
			}
			if len(hunk.context) == 0 && findLines(lines, hunk.old, at+1) >= 0 {
				c.Repeated++
			}
		}
		lines = slices.Replace(lines, at, at+len(hunk.old), hunk.new...)
		from = at + len(hunk.new)
	}
	return joinLines(lines), true
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// findLines returns where lines occur, at from or later: exactly, else without the white space around them, as hosts do. -1: nowhere.
func findLines(lines, wanted []string, from int) int {
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool {
			return strings.TrimRightFunc(a, unicode.IsSpace) == strings.TrimRightFunc(b, unicode.IsSpace)
		},
		func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) },
	} {
		for i := from; i+len(wanted) <= len(lines); i++ {
			if slices.EqualFunc(lines[i:i+len(wanted)], wanted, same) {
				return i
			}
		}
	}
	return -1
}

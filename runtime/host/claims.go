package host

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/typed"
)

// The names of the arguments of native tools that are paths.
//
//nolint:gochecknoglobals // tables
var (
	fileArguments   = []string{"file_path", "filePath", "absolute_path", "notebook_path", "path"}
	folderArguments = []string{"dir_path", "directory", "workdir", "working_directory", "cwd"}
	listArguments   = []string{"paths", "include"}
)

// findTool returns a tool that the host has itself, or nil.
func (h *Hook) findTool(name string) *nativeTool {
	tools := nativeTools()[h.Name]
	if i := slices.IndexFunc(tools, func(t nativeTool) bool { return t.name == name }); i >= 0 {
		return &tools[i]
	}
	return nil
}

// takes reports whether a tool has one of these arguments.
func (t *nativeTool) takes(names ...string) bool {
	has := func(a argument) bool { return slices.Contains(names, a.name) }
	return slices.ContainsFunc(t.required, has) || slices.ContainsFunc(t.optional, has)
}

// isShell reports whether a tool runs a command line.
func (t *nativeTool) isShell() bool { return t.takes("command") && !t.offline }

// NamePaths returns the files and folders that a call names, as it names them: those of a command only if the command certainly only reads, and
// those of a patch only if it certainly changes no others. A tool that could name one and does not works in the folder in which the host runs,
// which is ".". Nil: they are not known.
func (h *Hook) NamePaths(e *Event) []string {
	t := h.findTool(e.Tool)
	if t == nil {
		return nil
	}
	given, err := readTexts(e.Arguments)
	if err != nil {
		return nil
	}
	if t.name == patchTool {
		return namePatched(readPatchText(given))
	}
	var paths []string
	isNamed := false // by an argument that the tool reads
	for _, name := range slices.Concat(folderArguments, fileArguments, listArguments) {
		paths = append(paths, given[name]...)
		isNamed = isNamed || len(given[name]) > 0 && t.takes(name)
	}
	switch {
	case t.isShell():
		folder, ok := t.findFolder(given)
		read := typed.FilesRead(first(given["command"]))
		if !ok || len(read) == 0 {
			return nil
		}
		for _, file := range read {
			if !filepath.IsAbs(file) {
				file = filepath.Join(folder, file)
			}
			paths = append(paths, file)
		}
	case !isNamed && t.takes(slices.Concat(folderArguments, fileArguments, listArguments)...):
		paths = append(paths, ".")
	}
	return paths
}

// findFolder returns the folder in which a tool runs a command. Not ok: the host may ignore the argument that names it, or there are two.
func (t *nativeTool) findFolder(given map[string][]string) (folder string, ok bool) {
	var folders []string
	for _, name := range folderArguments {
		if len(given[name]) > 0 && !t.takes(name) {
			return "", false
		}
		folders = append(folders, given[name]...)
	}
	switch len(folders) {
	case 0:
		return ".", true
	case 1:
		return folders[0], true
	}
	return "", false
}

// NameChanged returns the one file that a call would change, as the call names it; "" if there is none, or several are named.
func (h *Hook) NameChanged(e *Event) string {
	t := h.findTool(e.Tool)
	if t == nil || t.reads || t.isShell() {
		return ""
	}
	given, err := readTexts(e.Arguments)
	if err != nil {
		return ""
	}
	if t.name == patchTool {
		if files, _ := readPatch(readPatchText(given)); len(files) == 1 {
			return files[0].path
		}
		return ""
	}
	changed := ""
	for _, name := range fileArguments {
		switch {
		case len(given[name]) != 1 || !t.takes(name): // hosts ignore arguments that they do not know
		case changed != "":
			return ""
		default:
			changed = given[name][0]
		}
	}
	return changed
}

// readPatchText returns the patch among the arguments of patchTool; "" if there is none, or another text beside it, such as a folder.
func readPatchText(given map[string][]string) string {
	patches := slices.Concat(given["command"], given["patchText"])
	if len(patches) != 1 || len(given) != 1 {
		return ""
	}
	return patches[0]
}

func first(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}

// readTexts returns the members of an object that are texts, or lists of texts.
func readTexts(object json.RawMessage) (map[string][]string, error) {
	texts := map[string][]string{}
	for m, err := range rawjson.Members([]byte(object)) {
		if err != nil {
			return nil, err
		}
		switch m.Value.Kind() {
		case '"':
			texts[m.Name()] = []string{rawjson.Unquote(m.Value)}
		case '[':
			var list []string
			if json.Unmarshal(m.Value, &list) == nil {
				texts[m.Name()] = list
			}
		default: // no text
		}
	}
	return texts, nil
}

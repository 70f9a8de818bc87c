package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// nativeTool is a tool that a host has itself. The descriptions are Holdpoint's, for reviewers. The schemas name the arguments that rules
// and reviewers read, and accept others, because each version of a host may add some.
type nativeTool struct {
	name, description string
	required          []argument
	optional          []argument
	reads             bool // it changes nothing
	offline           bool // it does not reach beyond the machine
}

// argument is an argument of a native tool. Its kind is a type of JSON Schema.
type argument struct{ name, kind, description string }

func text(name, description string) argument { return argument{name, "string", description} }

func number(name, description string) argument { return argument{name, "number", description} }

func flag(name, description string) argument { return argument{name, "boolean", description} }

func list(name, description string) argument { return argument{name, "array", description} }

// Arguments that several tools have.
//
//nolint:gochecknoglobals // constants
var (
	filePath    = text("file_path", "The file.")
	path        = text("path", "The file or directory.")
	camelPath   = text("filePath", "The file.")
	command     = text("command", "The command line, for a shell.")
	pattern     = text("pattern", "The pattern to search for.")
	description = text("description", "What the agent says that it does.")
	background  = flag("run_in_background", "Whether the command continues in the background.")
	address     = text("url", "The address to fetch.")
	prompt      = text("prompt", "The task or question.")
	query       = text("query", "What to search for.")
	content     = text("content", "The new content of the file.")
	oldString   = text("old_string", "The text to replace.")
	newString   = text("new_string", "The text that replaces it.")
)

func arguments(list ...argument) []argument { return list }

// nativeTools returns the tools of each host, by its name.
func nativeTools() map[string][]nativeTool {
	claude := claudeTools()
	return map[string][]nativeTool{
		ClaudeCode: claude,
		Codex: {
			{"Bash", "Runs a command in a shell.", arguments(command), nil, false, false},
			{patchTool, "Changes files by a patch.", arguments(text("command", "The patch.")), nil, false, true},
		},
		Gemini:   geminiTools(),
		Copilot:  append(copilotTools(), claude...), // hooks for the event PreToolUse get Claude Code's names
		OpenCode: openCodeTools(),
		Cursor:   cursorTools(),
	}
}

func claudeTools() []nativeTool {
	return []nativeTool{
		{"Bash", "Runs a command in a shell.", arguments(command), arguments(description, number("timeout", "In milliseconds."), background), false, false},
		{"BashOutput", "Reads the output of a command in the background.", nil, arguments(text("bash_id", "The command.")), true, true},
		{"KillShell", "Stops a command in the background.", nil, arguments(text("shell_id", "The command.")), false, true},
		{"Read", "Reads a file.", arguments(filePath), arguments(number("offset", "The first line."), number("limit", "The number of lines.")), true, true},
		{"Edit", "Replaces a text in a file.", arguments(filePath, oldString, newString), arguments(flag("replace_all", "Whether all occurrences are replaced.")), false, true},
		{"MultiEdit", "Replaces several texts in a file.", arguments(filePath, list("edits", "The replacements.")), nil, false, true},
		{"Write", "Writes a whole file.", arguments(filePath, content), nil, false, true},
		{
			"NotebookEdit", "Changes a cell of a Jupyter notebook.", arguments(text("notebook_path", "The notebook.")),
			arguments(text("cell_id", "The cell."), text("new_source", "The new content of the cell."), text("edit_mode", "replace, insert or delete.")), false, true,
		},
		{"Glob", "Finds files by their names.", arguments(pattern), arguments(path), true, true},
		{"Grep", "Searches in files.", arguments(pattern), arguments(path, text("glob", "The files to search in.")), true, true},
		{"LS", "Lists a directory.", nil, arguments(path), true, true},
		{"WebFetch", "Fetches a web page and asks a model about it.", arguments(address), arguments(prompt), true, false},
		{"WebSearch", "Searches the web.", arguments(query), nil, true, false},
		{"Task", "Starts a subagent. Its own calls are gated too.", nil, arguments(description, prompt, text("subagent_type", "The kind of subagent.")), false, true},
		{"Agent", "Starts a subagent. Its own calls are gated too.", nil, arguments(description, prompt, text("subagent_type", "The kind of subagent.")), false, true},
		{"TodoWrite", "Updates the agent's list of tasks.", nil, arguments(list("todos", "The tasks.")), true, true},
		{"ExitPlanMode", "Shows a plan to the user and leaves plan mode.", nil, arguments(text("plan", "The plan.")), false, true},
		{"AskUserQuestion", "Asks the user.", nil, arguments(list("questions", "The questions.")), true, true},
		{"Skill", "Reads the instructions of a skill.", nil, arguments(text("skill", "The skill.")), true, true},
		{"SlashCommand", "Runs a command of the user's.", nil, arguments(command), false, true},
	}
}

func geminiTools() []nativeTool {
	return []nativeTool{
		{"run_shell_command", "Runs a command in a shell.", arguments(command), arguments(description, text("directory", "Where it runs."), text("dir_path", "Where it runs.")), false, false},
		{"read_file", "Reads a file.", nil, arguments(filePath, text("absolute_path", "The file.")), true, true},
		{"read_many_files", "Reads several files.", nil, arguments(list("paths", "The files."), list("include", "The files.")), true, true},
		{"write_file", "Writes a whole file.", arguments(filePath, content), nil, false, true},
		{"replace", "Replaces a text in a file.", arguments(filePath, oldString, newString), nil, false, true},
		{"list_directory", "Lists a directory.", nil, arguments(path, text("dir_path", "The directory.")), true, true},
		{"glob", "Finds files by their names.", arguments(pattern), arguments(path, text("dir_path", "The directory.")), true, true},
		{"search_file_content", "Searches in files.", arguments(pattern), arguments(path, text("dir_path", "The directory.")), true, true},
		{"grep_search", "Searches in files.", arguments(pattern), arguments(path, text("dir_path", "The directory.")), true, true},
		{"web_fetch", "Fetches web pages and asks a model about them.", nil, arguments(prompt), true, false},
		{"google_web_search", "Searches the web.", arguments(query), nil, true, false},
		{"save_memory", "Remembers a fact for later sessions.", nil, arguments(text("fact", "The fact.")), false, true},
		{"write_todos", "Updates the agent's list of tasks.", nil, arguments(list("todos", "The tasks.")), true, true},
	}
}

func copilotTools() []nativeTool {
	return []nativeTool{
		{"bash", "Runs a command in a shell.", arguments(command), arguments(description), false, false},
		{"write_bash", "Types into a shell that is running.", nil, arguments(text("sessionId", "The shell."), text("input", "What is typed.")), false, false},
		{"read_bash", "Reads the output of a shell.", nil, arguments(text("sessionId", "The shell.")), true, true},
		{"stop_bash", "Stops a shell.", nil, arguments(text("sessionId", "The shell.")), false, true},
		{"view", "Reads a file or lists a directory.", arguments(path), nil, true, true},
		{"create", "Writes a new file.", arguments(path), arguments(text("file_text", "The content.")), false, true},
		{"edit", "Replaces a text in a file.", arguments(path), arguments(text("old_str", "The text to replace."), text("new_str", "The text that replaces it.")), false, true},
		{"glob", "Finds files by their names.", arguments(pattern), arguments(path), true, true},
		{"grep", "Searches in files.", arguments(pattern), arguments(path), true, true},
		{"web_fetch", "Fetches a web page.", arguments(address), nil, true, false},
		{"task", "Starts a subagent. Its own calls are gated too.", nil, arguments(description, prompt), false, true},
	}
}

func openCodeTools() []nativeTool {
	return []nativeTool{
		{"bash", "Runs a command in a shell.", arguments(command), arguments(description, text("workdir", "Where it runs."), number("timeout", "In milliseconds.")), false, false},
		{"read", "Reads a file.", arguments(camelPath), nil, true, true},
		{"write", "Writes a whole file.", arguments(camelPath, content), nil, false, true},
		{
			"edit", "Replaces a text in a file.", arguments(camelPath, text("oldString", "The text to replace."), text("newString", "The text that replaces it.")),
			arguments(flag("replaceAll", "Whether all occurrences are replaced.")), false, true,
		},
		{patchTool, "Changes files by a patch.", nil, arguments(text("patchText", "The patch.")), false, true},
		{"list", "Lists a directory.", nil, arguments(path), true, true},
		{"glob", "Finds files by their names.", arguments(pattern), arguments(path), true, true},
		{"grep", "Searches in files.", arguments(pattern), arguments(path), true, true},
		{"webfetch", "Fetches a web page.", arguments(address), nil, true, false},
		{"websearch", "Searches the web.", arguments(query), nil, true, false},
		{"task", "Starts a subagent. Its own calls are gated too.", nil, arguments(description, prompt), false, true},
		{"todowrite", "Updates the agent's list of tasks.", nil, arguments(list("todos", "The tasks.")), true, true},
		{"todoread", "Reads the agent's list of tasks.", nil, nil, true, true},
	}
}

func cursorTools() []nativeTool {
	return []nativeTool{
		{"Shell", "Runs a command in a shell.", nil, arguments(command, text("working_directory", "Where it runs."), text("cwd", "Where it runs.")), false, false},
		{"Read", "Reads a file.", nil, arguments(filePath, path), true, true},
		{"Write", "Writes or changes a file.", nil, arguments(filePath, path, content), false, true},
		{"Delete", "Deletes a file.", nil, arguments(filePath, path), false, true},
		{"Grep", "Searches in files.", nil, arguments(pattern, path), true, true},
		{"Task", "Starts a subagent. Its own calls are gated too.", nil, arguments(description, prompt), false, true},
	}
}

// Tools returns the definitions of a host's built-in tools. A name that is not one of [tool.Hosts] has none.
func Tools(name string) []tool.Definition { return definitions()[name] }

var definitions = sync.OnceValue(func() map[string][]tool.Definition { //nolint:gochecknoglobals // a constant
	all := map[string][]tool.Definition{}
	for name, tools := range nativeTools() {
		for i := range tools {
			all[name] = append(all[name], tools[i].define())
		}
	}
	return all
})

// define returns the definition of a tool.
func (t *nativeTool) define() tool.Definition {
	properties, required := map[string]any{}, []string{}
	for _, a := range slices.Concat(t.required, t.optional) {
		properties[a.name] = map[string]any{"type": a.kind, "description": a.description}
	}
	for _, a := range t.required {
		required = append(required, a.name)
	}
	raw, err := json.Marshal(map[string]any{
		"name": t.name, "description": t.description,
		"inputSchema": map[string]any{"type": "object", "properties": properties, "required": required},
		"annotations": map[string]any{"readOnlyHint": t.reads, "openWorldHint": !t.offline},
	})
	if err != nil {
		panic(err) // it has texts and flags only
	}
	definition, err := tool.ParseDefinition(raw)
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", t.name, err))
	}
	return definition
}

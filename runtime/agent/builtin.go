package agent

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// AskTool is the name of the tool by which clients ask an agent itself, if it has a model.
const AskTool = "ask"

// BuiltinSkill is what entries and calls are of that nobody registered: the agent itself. It is never listed, assigned or
// changed.
var BuiltinSkill = uuid.MustParse("00000000-0000-7000-8000-000000000001") //nolint:gochecknoglobals // a constant

// BuiltinSkillName is its name.
const BuiltinSkillName = "holdpoint"

const askDefinition = `{"name":"` + AskTool + `","title":"Ask this agent",` +
	`"description":"Says something to this agent and returns its answer. The agent has tools and instructions of its own; ` +
	`what it does with them may need the approval of a person, so an answer may take long. Within one session it remembers what was said.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"message":{"type":"string","minLength":1,"description":"What to say."},` +
	`"attachments":{"type":"array","maxItems":20,"description":"Files for the agent to read, by the ids that they got when they were uploaded.",` +
	`"items":{"type":"object","properties":{"file_id":{"type":"string"},"filename":{"type":"string"},"content_type":{"type":"string"},` +
	`"url":{"type":"string"},"size":{"type":"integer"},"sha256":{"type":"string"}}}},` +
	`"idempotency_key":{"type":"string","minLength":1,"maxLength":255,"description":"A message that is sent again with the same key is said once."}},` +
	`"required":["message"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":true}}`

// askEntry is the tool, as a catalogue has it.
func askEntry() (Entry, error) {
	definition, err := tool.ParseDefinition(json.RawMessage(askDefinition))
	return Entry{Name: AskTool, SkillID: BuiltinSkill, Skill: BuiltinSkillName, Tool: definition}, err
}

// own are the definitions of what a catalogue has of the agent's own, which no server lists.
func (c *Catalogue) own() []tool.Definition {
	var list []tool.Definition
	for i := range c.Entries {
		if c.Entries[i].SkillID == BuiltinSkill {
			list = append(list, c.Entries[i].Tool)
		}
	}
	return list
}

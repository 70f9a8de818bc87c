package catalog

import (
	"encoding/json"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// AskTool is the name of the tool with which clients ask an agent that has a model.
const AskTool = "ask"

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

// IsBuiltin reports whether the tool is the agent's own, and not a registered skill's.
func (e *Entry) IsBuiltin() bool { return e.SkillID == agent.BuiltinSkill }

// builtinEntries returns the agent's own tools: an agent with a model can be asked.
func builtinEntries(set agent.SkillSet) ([]Entry, error) {
	if !set.HasModel {
		return nil, nil
	}
	definition, err := tool.ParseDefinition(json.RawMessage(askDefinition))
	return []Entry{{Name: AskTool, SkillID: agent.BuiltinSkill, Skill: agent.BuiltinSkillName, Tool: definition}}, err
}

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

// The tools of agents that may submit plans.
const (
	SubmitPlanTool = "submit_plan"
	CheckPlanTool  = "check_plan"
)

const submitPlanDefinition = `{"name":"` + SubmitPlanTool + `","title":"Submit a plan",` +
	`"description":"Asks a person to approve a list of calls at once, before you make them. Use it when you know several calls in advance that need approval. ` +
	`After the approval make exactly these calls, one after another in this order: each passes once. A call in another order or with other arguments waits for a person on its own. ` +
	`Nothing is called by this tool.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"title":{"type":"string","minLength":1,"maxLength":200,"description":"What the plan is for, in a few words."},` +
	`"calls":{"type":"array","minItems":1,"maxItems":50,"items":{"type":"object","properties":{` +
	`"tool":{"type":"string","description":"The name of one of your tools."},` +
	`"arguments":{"type":"object","description":"Exactly the arguments that the call will have."},` +
	`"note":{"type":"string","maxLength":500,"description":"Why it is needed, for the person who decides."}},"required":["tool","arguments"],"additionalProperties":false}}},` +
	`"required":["title","calls"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}}`

const checkPlanDefinition = `{"name":"` + CheckPlanTool + `","title":"Check a plan",` +
	`"description":"Tells whether a plan was approved, and which of its calls you may make now. Can also cancel a plan.",` +
	`"inputSchema":{"type":"object","properties":{"plan_id":{"type":"string","description":"The id of the plan, from the answer of ` + SubmitPlanTool + `."},` +
	`"cancel":{"type":"boolean","description":"Cancel the plan: its calls do not pass any more."}},` +
	`"required":["plan_id"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}}`

// builtinEntries returns the agent's own tools: an agent with a model can be asked, and one with the setting plans submits plans.
func builtinEntries(set agent.SkillSet) ([]Entry, error) {
	var definitions []string
	if set.HasModel {
		definitions = append(definitions, askDefinition)
	}
	if set.Plans {
		definitions = append(definitions, submitPlanDefinition, checkPlanDefinition)
	}
	var entries []Entry
	for _, text := range definitions {
		definition, err := tool.ParseDefinition(json.RawMessage(text))
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Name: definition.Name, SkillID: agent.BuiltinSkill, Skill: agent.BuiltinSkillName, Tool: definition})
	}
	return entries, nil
}

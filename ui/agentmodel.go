package ui

import (
	"net/http"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/view"
)

// modelForm is what a form says of an agent's model and of the conversations that Holdpoint runs with it. An empty
// field is what has no value.
type modelForm struct {
	provider, name, baseURL, apiKey            string // the key is only what was typed
	maxTokens, images, inputPrice, outputPrice string
	turns, tokens, cost, time                  string // limits of a conversation
	keyed                                      bool   // a key is stored
}

func formOfModel(a *agent.Agent) modelForm {
	f := modelForm{turns: numberWords(a.Limits.ConversationTurns), tokens: numberWords(a.Limits.ConversationTokens), cost: decimalWords(a.Limits.ConversationCost)}
	if d := a.Limits.ConversationTime; d != 0 {
		f.time = durationWords(time.Duration(d))
	}
	m := modelOf(a)
	if m == nil {
		return f
	}
	f.provider, f.name, f.baseURL = m.Provider, m.Name, m.BaseURL
	f.maxTokens, f.inputPrice, f.outputPrice = numberWords(m.MaxTokens), decimalWords(m.InputPrice), decimalWords(m.OutputPrice)
	if m.Images != nil {
		f.images = strconv.FormatBool(*m.Images)
	}
	return f
}

func numberWords[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

func decimalWords(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func readModelForm(r *http.Request, keyed bool) modelForm {
	return modelForm{
		provider: line(r, "model.provider"), name: line(r, "model.name"), baseURL: line(r, "model.base_url"), apiKey: line(r, "model.api_key"),
		maxTokens: line(r, "model.max_tokens"), images: line(r, "model.images"),
		inputPrice: line(r, "model.input_price"), outputPrice: line(r, "model.output_price"),
		turns: line(r, "limits.conversation_turns"), tokens: line(r, "limits.conversation_tokens"),
		cost: line(r, "limits.conversation_cost"), time: line(r, "limits.conversation_time"),
		keyed: keyed,
	}
}

// spec is the model that the form says; the zero one says that there is none.
func (f *modelForm) spec(wrong *faults) *agent.ModelSpec {
	m := &agent.ModelSpec{
		Provider: f.provider, Name: f.name, BaseURL: f.baseURL, APIKey: f.apiKey,
		MaxTokens:  wrong.number("model.max_tokens", f.maxTokens),
		InputPrice: wrong.decimal("model.input_price", f.inputPrice), OutputPrice: wrong.decimal("model.output_price", f.outputPrice),
	}
	if f.provider+f.name == "" && *f != (modelForm{keyed: f.keyed, turns: f.turns, tokens: f.tokens, cost: f.cost, time: f.time}) {
		wrong.add("model.provider", "is required where something else is said of the model")
	}
	switch f.images {
	case "true", "false":
		m.Images = new(f.images == "true")
	case "":
	default:
		wrong.add("model.images", "must be true or false, or left out")
	}
	return m
}

// limit puts the limits of conversations beside those of the endpoint.
func (f *modelForm) limit(limits *agent.Limits, wrong *faults) *agent.Limits {
	limits.ConversationTurns = wrong.number("limits.conversation_turns", f.turns)
	limits.ConversationTokens = int64(wrong.number("limits.conversation_tokens", f.tokens))
	limits.ConversationCost = wrong.decimal("limits.conversation_cost", f.cost)
	if f.time == "" {
		return limits
	}
	if d := wrong.duration("limits.conversation_time", f.time); d != nil {
		limits.ConversationTime = *d
	}
	return limits
}

func (f *modelForm) part() view.FormPart {
	key := view.Field{Name: "model.api_key", Label: "Key", Kind: view.FieldSecret, Hint: "Stored encrypted and never shown. Left out together with the server: this server’s own key, where it has one."}
	if f.keyed {
		key.Hint = "Set, and kept while provider and server stay the same, unless another is given."
	}
	providers := []view.Choice{{Word: "None"}}
	for _, name := range agent.Providers() {
		providers = append(providers, view.Choice{Value: name, Word: name})
	}
	part := view.FormPart{
		Title: "Model", Folded: true, Words: "Only for conversations that Holdpoint runs itself. Clients that connect bring their own.",
		Fields: []view.Field{
			{Name: "model.provider", Label: "Provider", Kind: view.FieldSelect, Value: f.provider, Choices: providers, Hint: "openai is whatever speaks its chat completions: Ollama, vLLM, gateways."},
			{Name: "model.name", Label: "Model", Kind: view.FieldLine, Value: f.name, Code: true},
			{Name: "model.base_url", Label: "Server", Kind: view.FieldLine, Value: f.baseURL, Code: true, Example: "http://127.0.0.1:11434/v1", Hint: "Left out: the one that this server was given (OPENAI_BASE_URL, ANTHROPIC_BASE_URL), or the provider’s own."},
			key,
			{Name: "model.max_tokens", Label: "Tokens of an answer", Kind: view.FieldLine, Value: f.maxTokens, Code: true, Hint: "At most. Left out: as many as the provider allows by itself."},
			{
				Name: "model.images", Label: "Sees images", Kind: view.FieldSelect, Value: f.images,
				Choices: []view.Choice{{Word: "As its provider’s models do"}, {Value: "true", Word: "Yes"}, {Value: "false", Word: "No"}},
			},
			{Name: "model.input_price", Label: "Price of a million tokens sent", Kind: view.FieldLine, Value: f.inputPrice, Code: true, Hint: "In whatever currency you count. Left out: not counted."},
			{Name: "model.output_price", Label: "Price of a million tokens answered", Kind: view.FieldLine, Value: f.outputPrice, Code: true},
		},
	}
	part.Fields = append(part.Fields, f.limitFields()...)
	return part
}

func (f *modelForm) limitFields() []view.Field {
	return []view.Field{
		{
			Name: "limits.conversation_turns", Label: "Turns of a conversation", Kind: view.FieldLine, Value: f.turns, Code: true,
			Hint: "How often one conversation may ask the model. Left out: " + strconv.Itoa(agent.DefaultConversationTurns) + ".",
		},
		{
			Name: "limits.conversation_tokens", Label: "Tokens of a conversation", Kind: view.FieldLine, Value: f.tokens, Code: true,
			Hint: "Sent and answered together. Left out: no limit.",
		},
		{
			Name: "limits.conversation_cost", Label: "Cost of a conversation", Kind: view.FieldLine, Value: f.cost, Code: true,
			Hint: "In the currency of the prices. Left out: no limit.",
		},
		{
			Name: "limits.conversation_time", Label: "A conversation lasts", Kind: view.FieldLine, Value: f.time, Code: true, Example: "72h",
			Hint: "At most, from its start, the time that people think included. Left out: no limit.",
		},
	}
}

// modelFacts are what is shown of an agent's model and of the limits of its conversations.
func modelFacts(a *agent.Agent) []view.Fact {
	m := modelOf(a)
	if m == nil {
		return nil
	}
	list := []view.Fact{{Name: "Model", Text: m.Provider + ": " + m.Name}}
	add := func(name, words string, set bool) {
		if set {
			list = append(list, view.Fact{Name: name, Text: words})
		}
	}
	if m.BaseURL != "" {
		list = append(list, view.Fact{Name: "Model's server", Text: m.BaseURL, Code: true})
	}
	add("Tokens of an answer", "at most "+strconv.Itoa(m.MaxTokens), m.MaxTokens > 0)
	add("Sees images", seesWords(m), m.Images != nil)
	add("Price of a million tokens", decimalWords(m.InputPrice)+" sent, "+decimalWords(m.OutputPrice)+" answered", m.InputPrice > 0 && m.OutputPrice > 0)
	add("Price of a million tokens", decimalWords(m.InputPrice)+" sent", m.InputPrice > 0 && m.OutputPrice == 0)
	add("Price of a million tokens", decimalWords(m.OutputPrice)+" answered", m.InputPrice == 0 && m.OutputPrice > 0)
	add("Turns of a conversation", "at most "+strconv.Itoa(a.Limits.Turns()), true)
	add("Tokens of a conversation", "at most "+numberWords(a.Limits.ConversationTokens), a.Limits.ConversationTokens > 0)
	add("Cost of a conversation", "at most "+decimalWords(a.Limits.ConversationCost), a.Limits.ConversationCost > 0)
	add("A conversation lasts", "at most "+durationWords(time.Duration(a.Limits.ConversationTime)), a.Limits.ConversationTime > 0)
	return list
}

func seesWords(m *agent.ModelSpec) string {
	if m.Sees() {
		return "yes"
	}
	return "no"
}

package agents

import (
	"net/http"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// modelForm is the part of the form about an agent's model and the conversations that Holdpoint runs with it. An empty
// field has no value.
type modelForm struct {
	provider, name, baseURL, apiKey            string // the key only as it was typed
	maxTokens, images, inputPrice, outputPrice string
	turns, tokens, cost, time                  string // limits of a conversation
	keyed                                      bool   // a key is stored
}

func formOfModel(a *agent.Agent) modelForm {
	f := modelForm{turns: formatNumber(a.Limits.ConversationTurns), tokens: formatNumber(a.Limits.ConversationTokens), cost: formatDecimal(a.Limits.ConversationCost)}
	if d := a.Limits.ConversationTime; d != 0 {
		f.time = present.DurationWords(time.Duration(d))
	}
	m := readModel(a)
	if m == nil {
		return f
	}
	f.provider, f.name, f.baseURL = m.Provider, m.Name, m.BaseURL
	f.maxTokens, f.inputPrice, f.outputPrice = formatNumber(m.MaxTokens), formatDecimal(m.InputPrice), formatDecimal(m.OutputPrice)
	if m.Images != nil {
		f.images = strconv.FormatBool(*m.Images)
	}
	return f
}

func formatNumber[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

func formatDecimal(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func readModelForm(r *http.Request, keyed bool) modelForm {
	return modelForm{
		provider: shell.Line(r, "model.provider"), name: shell.Line(r, "model.name"), baseURL: shell.Line(r, "model.base_url"), apiKey: shell.Line(r, "model.api_key"),
		maxTokens: shell.Line(r, "model.max_tokens"), images: shell.Line(r, "model.images"),
		inputPrice: shell.Line(r, "model.input_price"), outputPrice: shell.Line(r, "model.output_price"),
		turns: shell.Line(r, "limits.conversation_turns"), tokens: shell.Line(r, "limits.conversation_tokens"),
		cost: shell.Line(r, "limits.conversation_cost"), time: shell.Line(r, "limits.conversation_time"),
		keyed: keyed,
	}
}

// readSpec returns the model of the form; the zero value means no model.
func (f *modelForm) readSpec(wrong *shell.Faults) *agent.ModelSpec {
	m := &agent.ModelSpec{
		Provider: f.provider, Name: f.name, BaseURL: f.baseURL, APIKey: f.apiKey,
		MaxTokens:  wrong.Number("model.max_tokens", f.maxTokens),
		InputPrice: wrong.Decimal("model.input_price", f.inputPrice), OutputPrice: wrong.Decimal("model.output_price", f.outputPrice),
	}
	if f.provider+f.name == "" && *f != (modelForm{keyed: f.keyed, turns: f.turns, tokens: f.tokens, cost: f.cost, time: f.time}) {
		wrong.Add("model.provider", "is required if another field of the model is set")
	}
	switch f.images {
	case "true", "false":
		m.Images = new(f.images == "true")
	case "":
	default:
		wrong.Add("model.images", "must be true or false, or left out")
	}
	return m
}

// addLimits adds the limits of conversations to those of the endpoint.
func (f *modelForm) addLimits(limits *agent.Limits, wrong *shell.Faults) *agent.Limits {
	limits.ConversationTurns = wrong.Number("limits.conversation_turns", f.turns)
	limits.ConversationTokens = int64(wrong.Number("limits.conversation_tokens", f.tokens))
	limits.ConversationCost = wrong.Decimal("limits.conversation_cost", f.cost)
	if f.time == "" {
		return limits
	}
	if d := wrong.Duration("limits.conversation_time", f.time); d != nil {
		limits.ConversationTime = *d
	}
	return limits
}

func (f *modelForm) part() view.FormPart {
	key := view.Field{Name: "model.api_key", Label: text.AgentModelKey(), Kind: view.FieldSecret, Hint: text.AgentModelKeyHint()}
	if f.keyed {
		key.Hint = text.AgentModelKeySet()
	}
	providers := []view.Choice{{Word: text.AgentNoModel()}}
	for _, name := range agent.Providers() {
		providers = append(providers, view.Choice{Value: name, Word: text.Literal(name)})
	}
	part := view.FormPart{
		Title: text.AgentModel(), Folded: true, Words: text.AgentModelLead(),
		Fields: []view.Field{
			{Name: "model.provider", Label: text.AgentProvider(), Kind: view.FieldSelect, Value: f.provider, Choices: providers, Hint: text.AgentProviderHint()},
			{Name: "model.name", Label: text.AgentModel(), Kind: view.FieldLine, Value: f.name, Code: true},
			{Name: "model.base_url", Label: text.AgentModelServer(), Kind: view.FieldLine, Value: f.baseURL, Code: true, Example: "http://127.0.0.1:11434/v1", Hint: text.AgentModelServerHint()},
			key,
			{Name: "model.max_tokens", Label: text.AgentMaxTokens(), Kind: view.FieldLine, Value: f.maxTokens, Code: true, Hint: text.AgentMaxTokensHint()},
			{
				Name: "model.images", Label: text.AgentImages(), Kind: view.FieldSelect, Value: f.images,
				Choices: []view.Choice{{Word: text.AgentImagesByProvider()}, {Value: "true", Word: text.AgentYes()}, {Value: "false", Word: text.AgentNo()}},
			},
			{Name: "model.input_price", Label: text.AgentInputPrice(), Kind: view.FieldLine, Value: f.inputPrice, Code: true, Hint: text.AgentInputPriceHint()},
			{Name: "model.output_price", Label: text.AgentOutputPrice(), Kind: view.FieldLine, Value: f.outputPrice, Code: true},
		},
	}
	part.Fields = append(part.Fields, f.limitFields()...)
	return part
}

func (f *modelForm) limitFields() []view.Field {
	return []view.Field{
		{
			Name: "limits.conversation_turns", Label: text.AgentTurns(), Kind: view.FieldLine, Value: f.turns, Code: true,
			Hint: text.AgentTurnsHint(agent.DefaultConversationTurns),
		},
		{
			Name: "limits.conversation_tokens", Label: text.AgentConversationTokens(), Kind: view.FieldLine, Value: f.tokens, Code: true,
			Hint: text.AgentConversationTokensHint(),
		},
		{
			Name: "limits.conversation_cost", Label: text.AgentCost(), Kind: view.FieldLine, Value: f.cost, Code: true,
			Hint: text.AgentCostHint(),
		},
		{
			Name: "limits.conversation_time", Label: text.AgentDuration(), Kind: view.FieldLine, Value: f.time, Code: true, Example: "72h",
			Hint: text.AgentDurationHint(),
		},
	}
}

// modelFacts describes an agent's model and the limits of its conversations.
func modelFacts(a *agent.Agent) []view.Fact {
	m := readModel(a)
	if m == nil {
		return nil
	}
	list := []view.Fact{{Name: text.AgentModel(), Text: text.AgentModelOf(m.Provider, m.Name)}}
	add := func(isSet bool, name, value text.Message) {
		if isSet {
			list = append(list, view.Fact{Name: name, Text: value})
		}
	}
	if m.BaseURL != "" {
		list = append(list, view.Fact{Name: text.AgentModelServerFact(), Text: text.Literal(m.BaseURL), Code: true})
	}
	add(m.MaxTokens > 0, text.AgentMaxTokens(), text.AgentAtMost(strconv.Itoa(m.MaxTokens)))
	images := text.AgentNo()
	if m.Sees() {
		images = text.AgentYes()
	}
	add(m.Images != nil, text.AgentImages(), images)
	var prices []text.Message
	if m.InputPrice > 0 {
		prices = append(prices, text.AgentPriceInput(formatDecimal(m.InputPrice)))
	}
	if m.OutputPrice > 0 {
		prices = append(prices, text.AgentPriceOutput(formatDecimal(m.OutputPrice)))
	}
	add(len(prices) > 0, text.AgentPrice(), text.Join(", ", prices...))
	limits := &a.Limits
	add(true, text.AgentTurns(), text.AgentAtMost(strconv.Itoa(limits.Turns())))
	add(limits.ConversationTokens > 0, text.AgentConversationTokens(), text.AgentAtMost(formatNumber(limits.ConversationTokens)))
	add(limits.ConversationCost > 0, text.AgentCost(), text.AgentAtMost(formatDecimal(limits.ConversationCost)))
	add(limits.ConversationTime > 0, text.AgentDuration(), text.AgentAtMost(present.DurationWords(time.Duration(limits.ConversationTime))))
	return list
}

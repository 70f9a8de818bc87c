package agent

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// ModelSpec is an agent's model, used by conversations that Holdpoint runs.
type ModelSpec struct {
	Provider string `json:"provider" doc:"openai: a server with OpenAI's chat completions API; anthropic; or scripted: a script of this server." manifest:"required" values:"openai|anthropic|scripted"`
	Name     string `json:"name" doc:"The provider's name for the model, or the name of the script." manifest:"required"`
	BaseURL  string `json:"base_url,omitempty" doc:"Omitted: this server's setting (OPENAI_BASE_URL, ANTHROPIC_BASE_URL), or the provider's public URL." otherwise:"this server's setting, or the provider's public URL"`
	APIKey   string `json:"api_key,omitempty" doc:"It is stored encrypted. Omitted together with base_url: this server's key, if it has one." manifest:"secret" otherwise:"this server's key"`

	MaxTokens   int     `json:"max_tokens,omitempty" minimum:"0" maximum:"10000000" doc:"The maximum length of one reply. 0 or omitted: the provider's default." unit:"tokens" otherwise:"the provider's"`
	Images      *bool   `json:"images,omitempty" doc:"Whether the model can see images. Omitted: true with openai and anthropic." otherwise:"true with openai and anthropic"`
	InputPrice  float64 `json:"input_price,omitempty" minimum:"0" maximum:"1000000" doc:"The price of a million input tokens, in any currency. 0 or omitted: costs are not counted." unit:"any currency" otherwise:"not counted"`
	OutputPrice float64 `json:"output_price,omitempty" minimum:"0" maximum:"1000000" doc:"The price of a million output tokens, in the same currency. 0 or omitted: costs are not counted." unit:"any currency" otherwise:"not counted"`
}

// The providers of models.
const (
	ProviderOpenAI    = "openai"    // the chat completions wire format, of any server
	ProviderAnthropic = "anthropic" // the messages wire format
	ProviderScripted  = "scripted"  // a script that the server has, for demonstrations and tests
)

// Providers returns the names of all model providers, in display order.
func Providers() []string { return []string{ProviderOpenAI, ProviderAnthropic, ProviderScripted} }

const (
	maxModelTokens = 10_000_000
	maxPrice       = 1_000_000
)

// Sees reports whether the model accepts images.
func (m *ModelSpec) Sees() bool {
	if m.Images != nil {
		return *m.Images
	}
	return m.Provider == ProviderOpenAI || m.Provider == ProviderAnthropic
}

// Cost returns the cost of tokens in the currency of the prices. Tokens without a price cost nothing.
func (m *ModelSpec) Cost(input, output int64) float64 {
	const million = 1_000_000
	return RoundCost((float64(input)*m.InputPrice + float64(output)*m.OutputPrice) / million)
}

// RoundCost removes what binary fractions add to a sum of costs: 0.00021, not 0.00020999999999999998.
func RoundCost(cost float64) float64 {
	const digits = 1e12
	return math.Round(cost*digits) / digits
}

// hasPrice reports whether the cost is counted.
func (m *ModelSpec) hasPrice() bool { return m.InputPrice > 0 || m.OutputPrice > 0 }

func (m *ModelSpec) validate(r report) {
	r.check(slices.Contains(Providers(), m.Provider), "provider", "must be one of "+strings.Join(Providers(), ", "))
	r.check(m.Name != "", "name", "is required")
	r.checkText("name", m.Name, maxToolName)
	r.checkText("api_key", m.APIKey, maxHeaderValue)
	if m.BaseURL != "" {
		r.checkURL("base_url", m.BaseURL)
	}
	if m.Provider == ProviderScripted {
		r.check(m.BaseURL == "", "base_url", "must be empty: the provider is a script, not a server")
		r.check(m.APIKey == "", "api_key", "must be empty: the provider is a script, not a server")
	}
	r.checkNumber("max_tokens", int64(m.MaxTokens), maxModelTokens, "the provider's default")
	r.checkAmount("input_price", m.InputPrice, maxPrice, "not counted")
	r.checkAmount("output_price", m.OutputPrice, maxPrice, "not counted")
}

func (m *ModelSpec) listFields() []field {
	if m == nil {
		return nil
	}
	list := fieldList{{name: "model.provider", value: m.Provider}, {name: "model.name", value: m.Name}}
	list.add("model.base_url", m.BaseURL)
	list.addSecret("model.api_key", m.APIKey)
	addNonZero(&list, "model.max_tokens", m.MaxTokens, strconv.Itoa)
	if m.Images != nil {
		list.add("model.images", strconv.FormatBool(*m.Images))
	}
	addNonZero(&list, "model.input_price", m.InputPrice, formatDecimal)
	addNonZero(&list, "model.output_price", m.OutputPrice, formatDecimal)
	return list
}

// applyPatch returns the model after a patch; nil is no model. The API key stays only if provider and base URL do.
func (m *ModelSpec) applyPatch(patch *ModelSpec) *ModelSpec {
	if patch == nil {
		return m
	}
	if patch.Provider == "" && patch.Name == "" {
		return nil
	}
	model := *patch
	if m != nil && model.APIKey == "" && m.Provider == model.Provider && m.BaseURL == model.BaseURL {
		model.APIKey = m.APIKey
	}
	return &model
}

// openModel has the settings of a model that are not secret, as they are stored and shown.
type openModel struct {
	Provider    string  `json:"provider"`
	Name        string  `json:"name"`
	BaseURL     string  `json:"base_url,omitempty"`
	MaxTokens   int     `json:"max_tokens,omitempty"`
	Images      *bool   `json:"images,omitempty"`
	InputPrice  float64 `json:"input_price,omitempty"`
	OutputPrice float64 `json:"output_price,omitempty"`
}

// sealModel returns the stored forms of a model: its settings and its encrypted secrets.
func (e *edit) sealModel(id uuid.UUID, model *ModelSpec) (json.RawMessage, []byte, error) {
	if model == nil {
		return nil, nil, nil
	}
	text, err := json.Marshal(openModel{
		Provider: model.Provider, Name: model.Name, BaseURL: model.BaseURL, MaxTokens: model.MaxTokens, Images: model.Images,
		InputPrice: model.InputPrice, OutputPrice: model.OutputPrice,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encode model: %w", err)
	}
	sealed, err := sealSecrets(e.box, agentPurpose, id, agentSecrets{model.APIKey}, model.APIKey == "")
	return text, sealed, err
}

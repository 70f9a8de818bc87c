package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// ModelSpec is an agent's model: whom the conversations ask that Holdpoint runs itself.
type ModelSpec struct {
	Provider string `json:"provider" doc:"openai, whatever speaks its chat completions; anthropic; or scripted, a script of the server's."`
	Name     string `json:"name" doc:"As its provider knows it; of a script, the script's."`
	BaseURL  string `json:"base_url,omitempty" doc:"Left out: the one that this server was given (OPENAI_BASE_URL, ANTHROPIC_BASE_URL), or the provider's own."`
	APIKey   string `json:"api_key,omitempty" doc:"Kept encrypted. Left out together with base_url: this server's own, where it has one."`

	MaxTokens   int     `json:"max_tokens,omitempty" minimum:"0" maximum:"10000000" doc:"Bounds one answer; 0 or left out: the provider's default."`
	Images      *bool   `json:"images,omitempty" doc:"Whether the model can see images; left out: yes, with openai and anthropic."`
	InputPrice  float64 `json:"input_price,omitempty" minimum:"0" maximum:"1000000" doc:"Of a million tokens of requests, in whatever currency is counted; 0 or left out: not counted."`
	OutputPrice float64 `json:"output_price,omitempty" minimum:"0" maximum:"1000000" doc:"Of a million tokens of answers, likewise."`
}

// The providers of models.
const (
	ProviderOpenAI    = "openai"    // the chat completions wire format, whoever serves it
	ProviderAnthropic = "anthropic" // the messages wire format
	ProviderScripted  = "scripted"  // a script that the server has, for demonstrations and tests
)

// Providers are the names of all providers of models, in the order in which they are offered.
func Providers() []string { return []string{ProviderOpenAI, ProviderAnthropic, ProviderScripted} }

const (
	maxModelTokens = 10_000_000
	maxPrice       = 1_000_000
)

// Sees reports whether the model can be shown images.
func (m *ModelSpec) Sees() bool {
	if m.Images != nil {
		return *m.Images
	}
	return m.Provider == ProviderOpenAI || m.Provider == ProviderAnthropic
}

// Cost is what tokens cost, in the currency of the prices. Tokens without a price cost nothing.
func (m *ModelSpec) Cost(input, output int64) float64 {
	const million = 1_000_000
	return (float64(input)*m.InputPrice + float64(output)*m.OutputPrice) / million
}

// priced reports whether anything is counted.
func (m *ModelSpec) priced() bool { return m.InputPrice > 0 || m.OutputPrice > 0 }

func (m *ModelSpec) validate(r report) {
	r.check(slices.Contains(Providers(), m.Provider), "provider", "must be one of "+strings.Join(Providers(), ", "))
	r.check(m.Name != "", "name", "is required")
	r.text("name", m.Name, maxToolName)
	r.text("api_key", m.APIKey, maxHeaderValue)
	if m.BaseURL != "" {
		r.url("base_url", m.BaseURL)
	}
	if m.Provider == ProviderScripted {
		r.check(m.BaseURL == "", "base_url", "belongs to providers that are servers; a script is none")
		r.check(m.APIKey == "", "api_key", "belongs to providers that are servers; a script is none")
	}
	r.number("max_tokens", int64(m.MaxTokens), maxModelTokens, "the provider's default")
	r.amount("input_price", m.InputPrice, maxPrice, "not counted")
	r.amount("output_price", m.OutputPrice, maxPrice, "not counted")
}

func (m *ModelSpec) fields() []field {
	if m == nil {
		return nil
	}
	list := []field{{name: "model.provider", value: m.Provider}, {name: "model.name", value: m.Name}}
	add := func(name, value string, set bool) {
		if set {
			list = append(list, field{name: "model." + name, value: value, secret: name == "api_key"})
		}
	}
	add("base_url", m.BaseURL, m.BaseURL != "")
	add("api_key", m.APIKey, m.APIKey != "")
	add("max_tokens", strconv.Itoa(m.MaxTokens), m.MaxTokens != 0)
	add("images", strconv.FormatBool(m.Sees()), m.Images != nil)
	add("input_price", decimal(m.InputPrice), m.InputPrice != 0)
	add("output_price", decimal(m.OutputPrice), m.OutputPrice != 0)
	return list
}

// patched is what a patch makes of a model, nil being none. An api key stays only with the server that it was given for.
func (m *ModelSpec) patched(patch *ModelSpec) *ModelSpec {
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

// openModel is what is not secret of a model, as it is stored and shown.
type openModel struct {
	Provider    string  `json:"provider"`
	Name        string  `json:"name"`
	BaseURL     string  `json:"base_url,omitempty"`
	MaxTokens   int     `json:"max_tokens,omitempty"`
	Images      *bool   `json:"images,omitempty"`
	InputPrice  float64 `json:"input_price,omitempty"`
	OutputPrice float64 `json:"output_price,omitempty"`
}

// sealModel takes a model apart: what is shown, and what is secret.
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
	sealed, err := seal(e.box, agentPurpose, id, agentSecrets{model.APIKey}, model.APIKey == "")
	return text, sealed, err
}

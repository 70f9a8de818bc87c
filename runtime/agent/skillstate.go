package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// skillState is all that an operator says of a skill, secrets in clear.
type skillState struct {
	Transport        tool.Transport
	URL              string
	Command          []string
	Headers          map[string]string // names in canonical form
	Env              map[string]string
	RunAs            string
	Paths            tool.Paths
	OAuth            *OAuthSpec
	PerUser          bool
	API              apiState
	AutoApprove      bool
	TrustNewTools    bool
	ApprovalTimeout  time.Duration
	ApprovalValidity time.Duration // zero: as ApprovalTimeout
	CallTimeout      time.Duration
	Resources        string
	Edits            string
	Questions        string
	IdentityHeaders  IdentityHeaders
	Tools            map[string]ToolSettings // without those that say nothing
	Attention        attention
}

// skillSettings is the stored form of what is not secret.
type skillSettings struct {
	URL              string    `json:"url,omitempty"`
	Command          []string  `json:"command,omitempty"`
	HeaderNames      []string  `json:"header_names,omitempty"`
	EnvNames         []string  `json:"env_names,omitempty"`
	RunAs            string    `json:"run_as,omitempty"`
	OAuth            *OAuth    `json:"oauth,omitempty"`
	PerUser          bool      `json:"per_user,omitempty"`
	Resources        string    `json:"resources,omitempty"` // empty: gated
	Edits            string    `json:"edits,omitempty"`     // empty: by_risk
	Questions        string    `json:"questions,omitempty"` // empty: reviewer
	API              *tool.API `json:"api,omitempty"`
	ApprovalValidity Duration  `json:"approval_validity,omitzero"` // zero: as the approval timeout

	Paths           tool.Paths      `json:"paths,omitzero"`
	IdentityHeaders IdentityHeaders `json:"identity_headers,omitzero"`

	// PublicHosts are the names in http URLs that had public addresses when the skill first named them; see [tool.Server].
	PublicHosts []string `json:"public_hosts,omitempty"`
}

// skillSecrets is what is stored encrypted.
type skillSecrets struct {
	Headers map[string]string `json:"headers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	OAuth   map[string]string `json:"oauth,omitempty"` // by their paths below oauth
	Auth    string            `json:"auth,omitempty"`
}

func (s *skillState) secrets() skillSecrets {
	return skillSecrets{Headers: s.Headers, Env: s.Env, OAuth: s.OAuth.secrets(), Auth: s.API.secret}
}

func (s skillSecrets) none() bool { return len(s.Headers)+len(s.Env)+len(s.OAuth)+len(s.Auth) == 0 }

func (s *skillState) settings() skillSettings {
	return skillSettings{
		URL: s.URL, Command: s.Command,
		HeaderNames: slices.Sorted(maps.Keys(s.Headers)), EnvNames: slices.Sorted(maps.Keys(s.Env)),
		RunAs: s.RunAs, Paths: s.Paths,
		OAuth: s.OAuth.open(), PerUser: s.PerUser, Resources: s.Resources, Edits: s.Edits, Questions: s.Questions, IdentityHeaders: s.IdentityHeaders, API: s.API.stored(),
		ApprovalValidity: Duration(s.ApprovalValidity),
	}
}

// skillPurpose binds sealed values to the skills table.
const skillPurpose = "skill"

// seal encrypts the secrets of a row; none are nil.
func seal(box *secret.Box, purpose string, id uuid.UUID, secrets any, none bool) ([]byte, error) {
	if none {
		return nil, nil
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("encode secrets: %w", err)
	}
	return box.Seal(text, secret.For(purpose, id))
}

// unseal is the way back.
func unseal(box *secret.Box, purpose string, id uuid.UUID, sealed []byte, secrets any) error {
	if sealed == nil {
		return nil
	}
	text, err := box.Open(sealed, secret.For(purpose, id))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, secrets); err != nil {
		return fmt.Errorf("decode secrets: %w", err)
	}
	return nil
}

// state is what a spec declares, with its defaults filled in.
func (spec SkillSpec) state(r report) *skillState {
	r.name("name", spec.Name)
	r.check(spec.URL == "" || !spec.Transport.IsAPI(), "url", "belongs to transport http; that of an API is base_url")
	r.check(spec.BaseURL == "" || spec.Transport.IsAPI(), "base_url", "belongs to transports openapi and http-api")
	var paths tool.Paths
	set(&paths, spec.Paths)
	return &skillState{
		RunAs: spec.RunAs, Paths: paths,
		Transport: spec.Transport, URL: cmp.Or(spec.BaseURL, spec.URL), Command: spec.Command, API: spec.APISpec.state(),
		Headers: canonicalHeaders(r, spec.Headers), Env: maps.Clone(spec.Env),
		OAuth: spec.OAuth.normal(), PerUser: perUser(r, spec.Connection),
		AutoApprove: spec.AutoApprove, TrustNewTools: spec.TrustNewTools,
		ApprovalTimeout:  orDefault(spec.ApprovalTimeout, DefaultApprovalTimeout),
		ApprovalValidity: orDefault(spec.ApprovalValidity, 0),
		CallTimeout:      orDefault(spec.CallTimeout, DefaultCallTimeout),
		Resources:        resources(spec.Resources),
		Edits:            cmp.Or(spec.Edits, EditsByRisk),
		Questions:        cmp.Or(spec.Questions, QuestionsReviewer),
		IdentityHeaders:  spec.IdentityHeaders.normal(),
		Tools:            normalTools(spec.Tools),
		Attention:        attention{spec.Team, spec.EscalateTo},
	}
}

func orDefault(d *Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return time.Duration(*d)
}

// canonicalHeaders refuses two spellings of one name.
func canonicalHeaders(r report, headers map[string]string) map[string]string {
	canonical := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		key := textproto.CanonicalMIMEHeaderKey(name)
		if _, twice := canonical[key]; twice {
			r.below("headers").add(name, "is named twice")
		}
		canonical[key] = headers[name]
	}
	return canonical
}

// normalTools leaves out what says nothing.
func normalTools(tools map[string]ToolSettings) map[string]ToolSettings {
	normal := make(map[string]ToolSettings, len(tools))
	for name, settings := range tools {
		if !settings.Disabled() {
			settings.Enabled = nil
		}
		if settings != (ToolSettings{}) {
			normal[name] = settings
		}
	}
	return normal
}

// apply returns the state that a patch makes of s.
func (patch SkillPatch) apply(r report, s *skillState) *skillState {
	changed := *s
	set(&changed.Transport, patch.Transport)
	r.check(patch.URL == nil || *patch.URL == "" || !changed.Transport.IsAPI(), "url", "belongs to transport http; that of an API is base_url")
	r.check(patch.BaseURL == nil || *patch.BaseURL == "" || changed.Transport.IsAPI(), "base_url", "belongs to transports openapi and http-api")
	set(&changed.URL, patch.URL)
	set(&changed.URL, patch.BaseURL)
	changed.API = patch.APIPatch.apply(s.API)
	set(&changed.Command, patch.Command)
	set(&changed.RunAs, patch.RunAs)
	set(&changed.Paths, patch.Paths)
	set(&changed.AutoApprove, patch.AutoApprove)
	set(&changed.TrustNewTools, patch.TrustNewTools)
	set(&changed.Resources, patch.Resources)
	if patch.Edits != nil {
		changed.Edits = cmp.Or(*patch.Edits, EditsByRisk)
	}
	set(&changed.Questions, patch.Questions)
	if patch.IdentityHeaders != nil {
		changed.IdentityHeaders = patch.IdentityHeaders.normal()
	}
	if patch.ApprovalTimeout != nil {
		changed.ApprovalTimeout = time.Duration(*patch.ApprovalTimeout)
	}
	if patch.ApprovalValidity != nil {
		changed.ApprovalValidity = time.Duration(*patch.ApprovalValidity)
	}
	if patch.CallTimeout != nil {
		changed.CallTimeout = time.Duration(*patch.CallTimeout)
	}
	if patch.Tools != nil {
		changed.Tools = normalTools(*patch.Tools)
	}
	if patch.Connection != nil {
		changed.PerUser = perUser(r, *patch.Connection)
	}
	changed.Attention = s.Attention.with(patch.Team, patch.EscalateTo)
	changed.OAuth = patch.OAuth.apply(s.OAuth)
	headers := make(map[string]*string, len(patch.Headers))
	for name, value := range patch.Headers {
		headers[textproto.CanonicalMIMEHeaderKey(name)] = value
	}
	changed.Headers, changed.Env = merge(s.Headers, headers), merge(s.Env, patch.Env)
	if !slices.Equal(s.Command, changed.Command) || changesCode(patch.Env) {
		stale(r.below("env"), changed.Env, patch.Env, givenForAnotherProgram)
	}
	if !sameOrigin(s.home(), changed.home()) {
		stale(r.below("headers"), changed.Headers, headers, givenForAnother)
		stale(r.below("oauth"), changed.OAuth.secrets(), patch.OAuth.secrets(), givenForAnother)
		r.below("auth").check(changed.API.secret == "" || patch.Auth != nil && patch.Auth.Secret != "", "secret", givenForAnother)
	}
	return &changed
}

// changesCode reports whether variables make the same command run other code, which would read the others.
func changesCode(env map[string]*string) bool {
	for name, value := range env {
		if value != nil && tool.ChoosesCode(name) {
			return true
		}
	}
	return false
}

func (patch ToolPatch) apply(s ToolSettings) ToolSettings {
	set(&s.Risk, patch.Risk)
	set(&s.Idempotent, patch.Idempotent)
	set(&s.Select, patch.Select)
	if patch.Enabled != nil {
		s.Enabled = patch.Enabled
	}
	return s
}

const (
	givenForAnother        = "was given for another host: give its value again, or remove it"
	givenForAnotherProgram = "was given for another command: give its value again, or remove it"
)

// stale refuses secrets that nobody gave again.
func stale[V any](r report, kept map[string]string, given map[string]V, message string) {
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		_, again := given[name]
		r.check(again, name, message)
	}
}

func set[T any](target *T, value *T) {
	if value != nil {
		*target = *value
	}
}

// merge sets what has a value and removes what is nil.
func merge(values map[string]string, patch map[string]*string) map[string]string {
	merged := maps.Clone(values)
	if merged == nil {
		merged = map[string]string{}
	}
	for name, value := range patch {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = *value
		}
	}
	return merged
}

// sameOrigin keeps a secret from going to another server than it was given for.
func sameOrigin(a, b string) bool {
	if a == b {
		return true
	}
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	return errA == nil && errB == nil && ua.Host != "" && ua.Scheme == ub.Scheme && ua.Host == ub.Host
}

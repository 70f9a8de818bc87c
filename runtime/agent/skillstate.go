package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// skillState holds the settings of a skill, with its secrets in clear.
type skillState struct {
	Transport tool.Transport
	URL       string
	Command   []string
	Headers   map[string]string // names in canonical form
	Env       map[string]string
	RunAs     string
	Paths     tool.Paths
	OAuth     *OAuthSpec
	PerUser   bool
	API       apiState
	SkillSettings
}

// skillSettings is the stored form of the fields that are not secret and have no column.
type skillSettings struct {
	URL         string     `json:"url,omitempty"`
	Command     []string   `json:"command,omitempty"`
	HeaderNames []string   `json:"header_names,omitempty"`
	EnvNames    []string   `json:"env_names,omitempty"`
	RunAs       string     `json:"run_as,omitempty"`
	Paths       tool.Paths `json:"paths,omitzero"`
	OAuth       *OAuth     `json:"oauth,omitempty"`
	PerUser     bool       `json:"per_user,omitempty"`
	API         *tool.API  `json:"api,omitempty"`
	storedSkillSettings

	// PublicHosts are the names in http URLs that had public addresses when the skill first named them; see [tool.Server].
	PublicHosts []string `json:"public_hosts,omitempty"`
}

// skillSecrets are stored encrypted.
type skillSecrets struct {
	Headers map[string]string `json:"headers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	OAuth   map[string]string `json:"oauth,omitempty"` // by their paths below oauth
	Auth    string            `json:"auth,omitempty"`
}

func (s *skillState) storedSettings() skillSettings {
	return skillSettings{
		URL: s.URL, Command: s.Command,
		HeaderNames: slices.Sorted(maps.Keys(s.Headers)), EnvNames: slices.Sorted(maps.Keys(s.Env)),
		RunAs: s.RunAs, Paths: s.Paths, OAuth: s.OAuth.withoutSecrets(), PerUser: s.PerUser, API: s.API.storedAPI(),
		storedSkillSettings: s.stored(),
	}
}

// skillPurpose binds sealed values to the skills table.
const skillPurpose = "skill"

// sealSecrets encrypts the secrets of a row. It returns nil if there are none.
func sealSecrets(box *secret.Box, purpose string, id uuid.UUID, secrets any, none bool) ([]byte, error) {
	if none {
		return nil, nil
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("encode secrets: %w", err)
	}
	return box.Seal(text, secret.For(purpose, id))
}

// unsealSecrets reverses sealSecrets.
func unsealSecrets(box *secret.Box, purpose string, id uuid.UUID, sealed []byte, secrets any) error {
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

// buildState converts a spec and fills in its defaults. It reports only problems that the state does not show.
func (spec *SkillSpec) buildState(r report) *skillState {
	r.checkName("name", spec.Name)
	r.check(spec.URL == "" || !spec.Transport.IsAPI(), "url", "belongs to transport http; use base_url for an API")
	r.check(spec.BaseURL == "" || spec.Transport.IsAPI(), "base_url", "belongs to transports openapi and http-api")
	var paths tool.Paths
	setIfGiven(&paths, spec.Paths)
	return &skillState{
		RunAs: spec.RunAs, Paths: paths,
		Transport: spec.Transport, URL: cmp.Or(spec.BaseURL, spec.URL), Command: spec.Command, API: spec.APISpec.buildState(),
		Headers: canonicalHeaders(r, spec.Headers), Env: maps.Clone(spec.Env),
		OAuth: spec.OAuth.normalize(), PerUser: parseConnection(r, spec.Connection),
		SkillSettings: spec.settings(),
	}
}

func orDefault(d *Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return time.Duration(*d)
}

// canonicalHeaders returns headers with canonical names. It refuses two spellings of one name.
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

// normalizeTools removes settings that equal the default.
func normalizeTools(tools map[string]ToolSettings) map[string]ToolSettings {
	normal := make(map[string]ToolSettings, len(tools))
	for name, settings := range tools {
		if !settings.Disabled() {
			settings.Enabled = nil
		}
		settings.NotSecret = slices.Compact(slices.Sorted(slices.Values(settings.NotSecret)))
		if !settings.isDefault() {
			normal[name] = settings
		}
	}
	return normal
}

// applyTo returns the state of a skill after the patch. Secrets must be given again when they would go to another server, or to
// other code.
func (patch SkillPatch) applyTo(r report, s *skillState) *skillState {
	changed := *s
	setIfGiven(&changed.Transport, patch.Transport)
	r.check(patch.URL == nil || *patch.URL == "" || !changed.Transport.IsAPI(), "url", "belongs to transport http; use base_url for an API")
	r.check(patch.BaseURL == nil || *patch.BaseURL == "" || changed.Transport.IsAPI(), "base_url", "belongs to transports openapi and http-api")
	setIfGiven(&changed.URL, patch.URL)
	setIfGiven(&changed.URL, patch.BaseURL)
	changed.API = patch.APIPatch.applyTo(s.API)
	setIfGiven(&changed.Command, patch.Command)
	setIfGiven(&changed.RunAs, patch.RunAs)
	setIfGiven(&changed.Paths, patch.Paths)
	changed.SkillSettings = patch.applySettings(s.SkillSettings)
	if patch.Connection != nil {
		changed.PerUser = parseConnection(r, *patch.Connection)
	}
	changed.OAuth = patch.OAuth.applyTo(s.OAuth)
	headers := make(map[string]*string, len(patch.Headers))
	for name, value := range patch.Headers {
		headers[textproto.CanonicalMIMEHeaderKey(name)] = value
	}
	changed.Headers, changed.Env = mergeValues(s.Headers, headers), mergeValues(s.Env, patch.Env)
	if !slices.Equal(s.Command, changed.Command) || changesCode(patch.Env) {
		requireSecretsAgain(r.below("env"), changed.Env, patch.Env, givenForAnotherProgram)
	}
	if !sameOrigin(s.secretTarget(), changed.secretTarget()) {
		requireSecretsAgain(r.below("headers"), changed.Headers, headers, givenForAnother)
		requireSecretsAgain(r.below("oauth"), changed.OAuth.listSecrets(), patch.OAuth.listSecrets(), givenForAnother)
		r.below("auth").check(changed.API.secret == "" || patch.Auth != nil && patch.Auth.Secret != "", "secret", givenForAnother)
	}
	return &changed
}

// changesCode reports whether variables make the same command run other code, which could read the other variables.
func changesCode(env map[string]*string) bool {
	for name, value := range env {
		if value != nil && tool.ChoosesCode(name) {
			return true
		}
	}
	return false
}

func (patch ToolPatch) applyTo(s ToolSettings) ToolSettings {
	setIfGiven(&s.Risk, patch.Risk)
	setIfGiven(&s.Idempotent, patch.Idempotent)
	setIfGiven(&s.Select, patch.Select)
	setIfGiven(&s.NotSecret, patch.NotSecret)
	setIfGiven(&s.Grants, patch.Grants)
	setIfGiven(&s.Policy, patch.Policy)
	if patch.Enabled != nil {
		s.Enabled = patch.Enabled
	}
	return s
}

const (
	givenForAnother        = "was given for another host: give its value again, or remove it"
	givenForAnotherProgram = "was given for another command: give its value again, or remove it"
)

// requireSecretsAgain refuses stored secrets that the patch does not give again.
func requireSecretsAgain[V any](r report, kept map[string]string, given map[string]V, message string) {
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		_, again := given[name]
		r.check(again, name, message)
	}
}

func setIfGiven[T any](target *T, value *T) {
	if value != nil {
		*target = *value
	}
}

// mergeValues sets the values of a patch. A nil value removes the name.
func mergeValues(values map[string]string, patch map[string]*string) map[string]string {
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

// sameOrigin reports whether two addresses have the same origin, so that a secret for one may be sent to the other.
func sameOrigin(a, b string) bool {
	if a == b {
		return true
	}
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	return errA == nil && errB == nil && ua.Host != "" && ua.Scheme == ub.Scheme && ua.Host == ub.Host
}

// listFields lists a skill's fields in the order of holdpoint.yaml.
func (s *skillState) listFields() []field {
	if s == nil {
		return nil
	}
	list := fieldList{{name: "transport", value: string(s.Transport)}}
	if !s.Transport.IsAPI() {
		list.add("url", s.URL)
	}
	list = append(list, s.listAPIFields()...)
	list.add("command", jsonText(s.Command))
	list.add("run_as", s.RunAs)
	list.add("paths.read", jsonText(s.Paths.Read))
	list.add("paths.write", jsonText(s.Paths.Write))
	list = append(list, secretFields("headers.", s.Headers)...)
	list = append(list, secretFields("env.", s.Env)...)
	list = append(list, s.OAuth.listFields()...)
	if s.Transport != tool.Stdio {
		list.add("connection", s.connectionKind())
	}
	return append(list, s.listSettings()...)
}

func listTools(tools map[string]ToolSettings) []field {
	var list []field
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		list = append(list, field{name: "tools." + name, value: tools[name].String()})
	}
	return list
}

func (s *skillState) connectionKind() string {
	if s.PerUser {
		return ConnectionPerUser
	}
	return ConnectionShared
}

func secretFields(prefix string, values map[string]string) []field {
	var list []field
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, field{name: prefix + name, value: values[name], secret: true})
	}
	return list
}

// String formats the settings as in holdpoint.yaml.
func (s ToolSettings) String() string {
	var parts []string
	if s.Risk != "" {
		parts = append(parts, "risk: "+s.Risk)
	}
	if s.Idempotent {
		parts = append(parts, "idempotent: true")
	}
	if s.Disabled() {
		parts = append(parts, "enabled: false")
	}
	if s.Select != "" {
		parts = append(parts, "select: "+strconv.Quote(s.Select))
	}
	if len(s.NotSecret) > 0 {
		parts = append(parts, "not_secret: "+jsonText(s.NotSecret))
	}
	if s.Grants {
		parts = append(parts, "grants: true")
	}
	if s.Policy != "" {
		parts = append(parts, "policy: "+s.Policy)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// APISpec has the settings of skills over an HTTP API (transports openapi and http-api). [tool.API] explains the fields.
type APISpec struct {
	BaseURL   string                 `json:"base_url,omitempty" doc:"The URL of the API. Omitted with transport openapi: the first server in the document."`
	Spec      string                 `json:"spec,omitempty" doc:"URL of the OpenAPI document, which is read at each listing. Transport openapi has this or document." manifest:"file=document"`
	Document  string                 `json:"document,omitempty" doc:"The OpenAPI document itself, JSON or YAML." manifest:"-"`
	Include   []tool.OperationFilter `json:"include,omitempty" otherwise:"all" doc:"The operations of the document that become tools. Each member of a filter must match."`
	Exclude   []tool.OperationFilter `json:"exclude,omitempty" otherwise:"none" doc:"Operations of the document that do not become tools."`
	Endpoints []tool.Endpoint        `json:"endpoints,omitempty" doc:"The endpoints of the API, which become tools. Required with transport http-api."` // of transport http-api
	Auth      *APIAuthSpec           `json:"auth,omitempty" otherwise:"none" doc:"The credentials of requests."`
	Preview   bool                   `json:"preview,omitempty" doc:"Show reviewers the present state of what a PUT, PATCH or DELETE would change, read by the GET of the same path."`
	// OutputSchemas requires responses to match the document's response schemas; default true.
	OutputSchemas *bool `json:"output_schemas,omitempty" doc:"Whether answers have to keep to the document's response schemas. Default true." otherwise:"true"`
}

// APIAuthSpec has the credentials of requests to an HTTP API; see [tool.APIAuth].
type APIAuthSpec struct {
	Type     string `json:"type" doc:"How requests authenticate: bearer, basic or api_key." manifest:"required" values:"bearer|basic|api_key"`
	In       string `json:"in,omitempty" doc:"With api_key: header, query or cookie." values:"header|query|cookie"`
	Name     string `json:"name,omitempty" doc:"With api_key: the name of the header, query parameter or cookie."`
	Username string `json:"username,omitempty" doc:"With basic: the username."`
	Secret   string `json:"secret,omitempty" doc:"The token, the password or the key. It is stored encrypted, and never shown." manifest:"secret"`
}

// APIPatch changes the settings of an HTTP API. A nil field stays as it is.
type APIPatch struct {
	BaseURL   *string                 `json:"base_url,omitempty"`
	Spec      *string                 `json:"spec,omitempty"`     // replaces a document
	Document  *string                 `json:"document,omitempty"` // replaces another document, or a spec
	Include   *[]tool.OperationFilter `json:"include,omitempty"`  // replaces all of them
	Exclude   *[]tool.OperationFilter `json:"exclude,omitempty"`
	Endpoints *[]tool.Endpoint        `json:"endpoints,omitempty"`
	// Auth replaces the credentials. Without a secret, the stored secret stays while all other fields are unchanged. An empty type
	// removes the credentials.
	Auth          *APIAuthSpec `json:"auth,omitempty"`
	Preview       *bool        `json:"preview,omitempty"`
	OutputSchemas *bool        `json:"output_schemas,omitempty"`
}

// MaxDocument bounds an OpenAPI document, in bytes.
const MaxDocument = 32 << 20

// apiState holds the settings of an HTTP API, without its base URL.
type apiState struct {
	tool.API
	secret   string // of Auth
	document []byte // nil if the document is stored already
	both     bool   // spec and document were given
}

func (spec *APISpec) buildState() apiState {
	s := apiState{API: tool.API{
		Spec: spec.Spec, Include: slices.Clone(spec.Include), Exclude: slices.Clone(spec.Exclude), Endpoints: slices.Clone(spec.Endpoints),
		Preview: spec.Preview, NoOutputSchemas: spec.OutputSchemas != nil && !*spec.OutputSchemas,
	}, both: spec.Spec != "" && spec.Document != ""}
	s.setDocument(spec.Document)
	s.setAuth(spec.Auth)
	return s
}

func (s *apiState) setDocument(document string) {
	if s.document, s.Document, s.Origins = nil, "", nil; document != "" {
		sum := sha256.Sum256([]byte(document))
		s.document, s.Document = []byte(document), hex.EncodeToString(sum[:])
	}
}

func (s *apiState) setAuth(spec *APIAuthSpec) {
	if spec == nil || *spec == (APIAuthSpec{}) {
		s.Auth, s.secret = nil, ""
		return
	}
	auth := tool.APIAuth{Type: spec.Type, In: spec.In, Name: spec.Name, Username: spec.Username}
	if spec.Secret != "" || s.Auth == nil || *s.Auth != auth {
		s.secret = spec.Secret
	}
	s.Auth = &auth
}

// applyTo returns the settings after a patch.
func (patch *APIPatch) applyTo(s apiState) apiState {
	setIfGiven(&s.Include, patch.Include)
	setIfGiven(&s.Exclude, patch.Exclude)
	setIfGiven(&s.Endpoints, patch.Endpoints)
	setIfGiven(&s.Preview, patch.Preview)
	if patch.OutputSchemas != nil {
		s.NoOutputSchemas = !*patch.OutputSchemas
	}
	if patch.Spec != nil {
		s.Spec = *patch.Spec
		if s.Spec != "" && patch.Document == nil {
			s.setDocument("")
		}
	}
	if patch.Document != nil {
		s.setDocument(*patch.Document)
		if *patch.Document != "" && patch.Spec == nil {
			s.Spec = ""
		}
	}
	s.both = s.Spec != "" && s.Document != ""
	if patch.Auth != nil {
		s.setAuth(patch.Auth)
	}
	return s
}

// isEmpty reports whether there are no settings.
func (s *apiState) isEmpty() bool {
	return s.Spec == "" && s.Document == "" && len(s.Include)+len(s.Exclude)+len(s.Endpoints) == 0 && s.Auth == nil && !s.Preview && !s.NoOutputSchemas
}

// storedAPI returns the settings that are stored in clear, or nil if there are none.
func (s *apiState) storedAPI() *tool.API {
	if s.isEmpty() {
		return nil
	}
	api := s.API
	return &api
}

// secretTarget returns the address that secrets are sent to. Secrets must be given again when its origin changes.
func (s *skillState) secretTarget() string {
	if s.URL == "" && s.Transport == tool.OpenAPI {
		if s.API.Spec != "" {
			return s.API.Spec
		}
		return "document:" + s.API.Document
	}
	return s.URL
}

func (s *skillState) validateAPI(r report, limits limits) {
	api := &s.API
	r.check(len(s.Command) == 0, "command", "belongs to transport stdio")
	r.check(len(s.Env) == 0, "env", "belongs to transport stdio")
	if s.URL != "" || s.Transport == tool.HTTPAPI {
		r.checkURL("base_url", s.URL)
		u, err := url.Parse(s.URL)
		r.check(err != nil || u.RawQuery == "" && !u.ForceQuery, "base_url", "must have no query: an argument or auth may add one")
		r.check(err != nil || !slices.ContainsFunc(strings.Split(u.Path, "/"), func(part string) bool { return part == "." || part == ".." }),
			"base_url", "must have no . or .. in its path")
	}
	if s.Transport == tool.OpenAPI {
		r.check(len(api.Endpoints) == 0, "endpoints", "belong to transport http-api")
		switch {
		case api.both:
			r.add("document", "must be empty with spec: the document comes from one of the two")
		case api.Spec != "":
			r.checkURL("spec", api.Spec)
		case api.Document == "":
			r.add("spec", "is required: the URL of an OpenAPI document; or give the document itself as document")
		case len(api.document) > MaxDocument:
			r.add("document", fmt.Sprintf("must be at most %d MiB", MaxDocument>>20))
		case api.document != nil && limits.checkDocument != nil:
			var err error
			if api.Origins, err = limits.checkDocument(api.document); err != nil {
				r.add("document", err.Error())
			}
		}
	} else {
		r.check(api.Spec == "" && api.Document == "", "spec", "belongs to transport openapi")
		r.check(len(api.Include)+len(api.Exclude) == 0, "include", "and exclude belong to transport openapi")
	}
	for _, p := range setting.Validate(&api.API, s.Transport) {
		r.add(p.Pointer, p.Message)
	}
	r.checkHeaders(s.Headers, report.checkAPIHeaderValue)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		r.below("headers").check(name == "Cookie" || isReservedHeader(name) || !setting.IsFramingHeader(name), name, "is a header that Holdpoint sets itself")
	}
	s.validateAuth(r)
	s.IdentityHeaders.validate(r.below("identity_headers"), s.Headers)
	r.check(s.OAuth == nil || s.URL != "", "base_url", "is required with oauth: tokens are issued for it")
	s.validateOAuth(r)
}

func (s *skillState) validateAuth(r report) {
	auth := s.API.Auth
	if auth == nil {
		return
	}
	at := r.below("auth")
	r.check(!s.PerUser, "connection", "per_user needs oauth: the secret of auth is shared by all")
	_, given := s.Headers["Authorization"]
	at.check(s.OAuth == nil && (!given || auth.Type == tool.APIKey), "type", "must be empty with oauth or a header Authorization, which authenticate requests already")
	switch {
	case s.API.secret == "":
		at.add("secret", "is required: the token, password or key")
	case auth.Type == tool.APIBearer, auth.Type == tool.APIKey && auth.In == "header":
		at.checkAPIHeaderValue("secret", s.API.secret)
	default: // the encoding takes any text
		at.checkHeaderValue("secret", s.API.secret)
	}
	at.check(auth.Type == tool.APIKey || auth.In == "" && auth.Name == "", "in", "and name belong to type api_key")
	at.check(auth.Type == tool.APIBasic || auth.Username == "", "username", "belongs to type basic")
	switch auth.Type {
	case tool.APIBearer, tool.APIBasic:
	case tool.APIKey:
		at.check(auth.In == "header" || auth.In == "query" || auth.In == "cookie", "in", "must be header, query or cookie")
		at.check(auth.Name != "" && len(auth.Name) <= 128, "name", "must be the name of the header, query parameter or cookie, of at most 128 bytes")
		at.check(auth.In == "query" || headerForm.MatchString(auth.Name), "name", "has a character that is invalid in the name of a header or cookie")
		at.check(auth.In != "header" || !isReservedHeader(auth.Name) && !setting.IsFramingHeader(auth.Name), "name",
			"is a header that Holdpoint sets itself; a cookie is auth in cookie")
	default:
		at.add("type", "must be bearer, basic or api_key")
	}
}

// listAPIFields lists the fields of an HTTP API.
func (s *skillState) listAPIFields() []field {
	if !s.Transport.IsAPI() {
		return nil
	}
	api := &s.API
	var list fieldList
	list.add("base_url", s.URL)
	list.add("spec", api.Spec)
	if api.Document != "" {
		list.add("document", "SHA-256 "+api.Document)
	}
	list.add("include", jsonText(api.Include))
	list.add("exclude", jsonText(api.Exclude))
	list.add("endpoints", jsonText(normalizeSchemas(api.Endpoints)))
	if api.Auth != nil {
		list.add("auth.type", api.Auth.Type)
		list.add("auth.in", api.Auth.In)
		list.add("auth.name", api.Auth.Name)
		list.add("auth.username", api.Auth.Username)
		list.addSecret("auth.secret", api.secret)
	}
	list.add("preview", strconv.FormatBool(api.Preview))
	list.add("output_schemas", strconv.FormatBool(!api.NoOutputSchemas))
	return list
}

// normalizeSchemas returns endpoints whose schemas have their members in order and their numbers without exponents and needless zeros, as far as
// the database keeps them. So the same schema is not a change.
func normalizeSchemas(endpoints []tool.Endpoint) []tool.Endpoint {
	normal := slices.Clone(endpoints)
	for i := range normal {
		e := &normal[i]
		e.InputSchema, e.OutputSchema = normalizeJSON(e.InputSchema), normalizeJSON(e.OutputSchema)
		e.Parameters = maps.Clone(e.Parameters)
		for name, parameter := range e.Parameters {
			parameter.Schema = normalizeJSON(parameter.Schema)
			e.Parameters[name] = parameter
		}
	}
	return normal
}

func normalizeJSON(text json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if len(text) == 0 || decoder.Decode(&value) != nil {
		return text
	}
	normal, err := json.Marshal(normalizeNumbers(value))
	if err != nil {
		return text
	}
	return normal
}

// maxNumber bounds a number that is written without its exponent, in characters.
const maxNumber = 400

func normalizeNumbers(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = normalizeNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = normalizeNumbers(v[name])
		}
	case json.Number:
		float, err := v.Float64()
		number, ok := new(big.Rat).SetString(v.String())
		if err != nil || !ok || math.Abs(float) < 1e-300 && float != 0 {
			return v
		}
		text := number.FloatString(maxNumber)
		return json.Number(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	}
	return value
}

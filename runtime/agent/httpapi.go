package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// APISpec is what the skill of an HTTP API has (transports openapi and http-api). What the fields mean is told at [tool.API].
type APISpec struct {
	BaseURL   string                 `json:"base_url,omitempty" doc:"Of the API. Left out of transport openapi: the first server that the document names."`
	Spec      string                 `json:"spec,omitempty" doc:"URL of the OpenAPI document, which is read at each listing. Transport openapi has this or document."`
	Document  string                 `json:"document,omitempty" doc:"The OpenAPI document itself, JSON or YAML."`
	Include   []tool.OperationFilter `json:"include,omitempty"`
	Exclude   []tool.OperationFilter `json:"exclude,omitempty"`
	Endpoints []tool.Endpoint        `json:"endpoints,omitempty"` // of transport http-api
	Auth      *APIAuthSpec           `json:"auth,omitempty"`
	Preview   bool                   `json:"preview,omitempty" doc:"Show reviewers the present state of what a PUT, PATCH or DELETE would change, read by the GET of the same path."`
	// OutputSchemas says whether answers have to keep to the document's response schemas; default true.
	OutputSchemas *bool `json:"output_schemas,omitempty" doc:"Whether answers have to keep to the document's response schemas. Default true."`
}

// APIAuthSpec is how requests to an HTTP API are authenticated; see [tool.APIAuth].
type APIAuthSpec struct {
	Type     string `json:"type" doc:"bearer, basic or api_key"`
	In       string `json:"in,omitempty" doc:"Of api_key: header, query or cookie."`
	Name     string `json:"name,omitempty" doc:"Of api_key: of the header, query parameter or cookie."`
	Username string `json:"username,omitempty" doc:"Of basic."`
	Secret   string `json:"secret,omitempty" doc:"The token, the password or the key. It is stored encrypted, and never shown."`
}

// APIPatch changes what the skill of an HTTP API has. A nil field stays as it is.
type APIPatch struct {
	BaseURL   *string                 `json:"base_url,omitempty"`
	Spec      *string                 `json:"spec,omitempty"`     // takes the place of a document
	Document  *string                 `json:"document,omitempty"` // takes the place of another, or of a spec
	Include   *[]tool.OperationFilter `json:"include,omitempty"`  // replaces all of them
	Exclude   *[]tool.OperationFilter `json:"exclude,omitempty"`
	Endpoints *[]tool.Endpoint        `json:"endpoints,omitempty"`
	// Auth replaces it. Without a secret the one that is stored stays, while the rest is as it was. With an empty type there is none any more.
	Auth          *APIAuthSpec `json:"auth,omitempty"`
	Preview       *bool        `json:"preview,omitempty"`
	OutputSchemas *bool        `json:"output_schemas,omitempty"`
}

// MaxDocument bounds an OpenAPI document, in bytes.
const MaxDocument = 32 << 20

// apiState is what an operator says of an HTTP API, besides its base URL.
type apiState struct {
	tool.API
	secret   string // of Auth
	document []byte // when it was just given; else it is stored already
	both     bool   // spec and document were given
}

func (spec *APISpec) state() apiState {
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

// apply returns what a patch makes of s.
func (patch *APIPatch) apply(s apiState) apiState {
	set(&s.Include, patch.Include)
	set(&s.Exclude, patch.Exclude)
	set(&s.Endpoints, patch.Endpoints)
	set(&s.Preview, patch.Preview)
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

// none reports whether nothing was said.
func (s *apiState) none() bool {
	return s.Spec == "" && s.Document == "" && len(s.Include)+len(s.Exclude)+len(s.Endpoints) == 0 && s.Auth == nil && !s.Preview && !s.NoOutputSchemas
}

// stored is what is stored in clear; nil: nothing.
func (s *apiState) stored() *tool.API {
	if s.none() {
		return nil
	}
	api := s.API
	return &api
}

// home is where secrets go to: they are given anew when it changes.
func (s *skillState) home() string {
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
		r.url("base_url", s.URL)
		u, err := url.Parse(s.URL)
		r.check(err != nil || u.RawQuery == "" && !u.ForceQuery, "base_url", "must have no query: an argument or auth may add one")
		r.check(err != nil || !slices.ContainsFunc(strings.Split(u.Path, "/"), func(part string) bool { return part == "." || part == ".." }),
			"base_url", "must have no . or .. in its path")
	}
	if s.Transport == tool.OpenAPI {
		r.check(len(api.Endpoints) == 0, "endpoints", "belong to transport http-api")
		switch {
		case api.both:
			r.add("document", "must be left out where there is a spec: the document comes from the one or the other")
		case api.Spec != "":
			r.url("spec", api.Spec)
		case api.Document == "":
			r.add("spec", "is required: the URL of an OpenAPI document, or in its place the document itself")
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
	r.headers(s.Headers, report.apiHeaderValue)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		r.below("headers").check(name == "Cookie" || reservedHeader(name) || !setting.IsFramingHeader(name), name, "is a header that Holdpoint sets itself")
	}
	s.validateAuth(r)
	s.IdentityHeaders.validate(r.below("identity_headers"), s.Headers)
	r.check(s.OAuth == nil || s.URL != "", "base_url", "is required with oauth: tokens are for it")
	s.validateOAuth(r)
}

func (s *skillState) validateAuth(r report) {
	auth := s.API.Auth
	if auth == nil {
		return
	}
	at := r.below("auth")
	r.check(!s.PerUser, "connection", "per_user goes with oauth: the secret of auth is one for all")
	_, given := s.Headers["Authorization"]
	at.check(s.OAuth == nil && (!given || auth.Type == tool.APIKey), "type", "must be left out where oauth or a header Authorization says who asks")
	switch {
	case s.API.secret == "":
		at.add("secret", "is required: the token, the password or the key")
	case auth.Type == tool.APIBearer, auth.Type == tool.APIKey && auth.In == "header":
		at.apiHeaderValue("secret", s.API.secret)
	default: // it is encoded, which carries all text
		at.headerValue("secret", s.API.secret)
	}
	at.check(auth.Type == tool.APIKey || auth.In == "" && auth.Name == "", "in", "and name belong to type api_key")
	at.check(auth.Type == tool.APIBasic || auth.Username == "", "username", "belongs to type basic")
	switch auth.Type {
	case tool.APIBearer, tool.APIBasic:
	case tool.APIKey:
		at.check(auth.In == "header" || auth.In == "query" || auth.In == "cookie", "in", "must be header, query or cookie")
		at.check(auth.Name != "" && len(auth.Name) <= 128, "name", "is required, of at most 128 bytes: that of the header, query parameter or cookie")
		at.check(auth.In == "query" || headerForm.MatchString(auth.Name), "name", "has characters that it may not have")
		at.check(auth.In != "header" || !reservedHeader(auth.Name) && !setting.IsFramingHeader(auth.Name), "name",
			"is a header that Holdpoint sets itself; a cookie is auth in cookie")
	default:
		at.add("type", "must be bearer, basic or api_key")
	}
}

// fields are those of an HTTP API.
func (s *skillState) apiFields() []field {
	if !s.Transport.IsAPI() {
		return nil
	}
	api := &s.API
	list := []field{{name: "base_url", value: s.URL}, {name: "spec", value: api.Spec}}
	if api.Document != "" {
		list = append(list, field{name: "document", value: "SHA-256 " + api.Document})
	}
	list = append(list, field{name: "include", value: listText(api.Include)}, field{name: "exclude", value: listText(api.Exclude)},
		field{name: "endpoints", value: listText(api.Endpoints)})
	if api.Auth != nil {
		list = append(list, field{name: "auth.type", value: api.Auth.Type}, field{name: "auth.in", value: api.Auth.In},
			field{name: "auth.name", value: api.Auth.Name}, field{name: "auth.username", value: api.Auth.Username},
			field{name: "auth.secret", value: api.secret, secret: true})
	}
	list = slices.DeleteFunc(list, func(f field) bool { return f.value == "" })
	return append(list, field{name: "preview", value: strconv.FormatBool(api.Preview)},
		field{name: "output_schemas", value: strconv.FormatBool(!api.NoOutputSchemas)})
}

// listText shows a list; an empty one is not set.
func listText[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Sprint(list)
	}
	return string(text)
}

package cli

import (
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// apiFields are the flags for what the skill of an HTTP API has.
func apiFields(f *fieldFlags) {
	f.text("base-url", "base_url", "of the API; left out of openapi, the first server that the document names (openapi, http-api)")
	f.document("spec", "its OpenAPI document: a URL, which the server reads at each listing, or a file, which is sent; - is standard input (openapi)")
	f.filters("include", "operations of the document to offer: an operationId, or tag=TAG,method=METHOD,path=PATH,operation_id=ID with as many as you like; * and ** stand for any characters (openapi)")
	f.filters("exclude", "operations of the document to leave out again, said likewise (openapi)")
	f.endpoints("endpoints-file", "file of its endpoints, YAML or JSON as holdpoint.yaml has them; - is standard input (http-api)")
	f.text("auth-type", "auth.type", "how requests are authenticated: bearer, basic or api_key (openapi, http-api)")
	f.text("auth-in", "auth.in", "where the key goes: header, query or cookie (api_key)")
	f.text("auth-name", "auth.name", "of the header, query parameter or cookie (api_key)")
	f.text("auth-username", "auth.username", "the user (basic)")
	f.secret("auth-secret", "auth.secret", "the token, the password or the key")
	f.bool("preview", "preview", "show reviewers the present state of what a PUT, PATCH or DELETE would change (openapi)")
	f.bool("output-schemas", "output_schemas", "answers have to keep to the document's response schemas, which is the default (openapi)")
}

// document is given as a URL, or as a file, which is sent byte for byte.
func (f *fieldFlags) document(flag, usage string) {
	v := f.cmd.Flags().String(flag, "", usage)
	f.puts = append(f.puts, func(body map[string]any) error {
		if !f.cmd.Flags().Changed(flag) {
			return nil
		}
		if manifest.IsURL(*v) {
			body["spec"] = *v
			return nil
		}
		text, err := f.env.readFile(*v)
		if err != nil {
			return err
		}
		body["document"] = string(text)
		return nil
	})
}

func (f *fieldFlags) filters(flag, usage string) {
	v := f.cmd.Flags().StringArray(flag, nil, usage)
	f.field(flag, flag, func() (any, error) { return filtersOf(flag, *v) })
}

// filtersOf reads filters; an empty one is none, so that all can be taken away.
func filtersOf(flag string, texts []string) ([]tool.OperationFilter, error) {
	list := []tool.OperationFilter{}
	for _, text := range texts {
		if text == "" {
			continue
		}
		filter, err := setting.ParseFilter(text)
		if err != nil {
			return nil, misuse("--%s %s: %v", flag, text, err)
		}
		list = append(list, filter)
	}
	return list, nil
}

func (f *fieldFlags) endpoints(flag, usage string) {
	v := f.cmd.Flags().String(flag, "", usage)
	f.field(flag, "endpoints", func() (any, error) {
		text, err := f.env.readFile(*v)
		if err != nil {
			return nil, err
		}
		read, err := manifest.ParseEndpoints(*v, text, manifest.Options{Getenv: f.env.Getenv})
		if err != nil {
			return nil, err
		}
		return read.Spec, nil
	})
}

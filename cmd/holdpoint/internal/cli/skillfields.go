package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// skillFields adds the flags for the fields of a skill, named as in holdpoint.yaml.
func skillFields(e *Env, cmd *cobra.Command, removable bool) *fieldFlags {
	f := &fieldFlags{env: e, cmd: cmd}
	f.addText("transport", "transport", "http, stdio, openapi, http-api or gate")
	f.addText("url", "url", "URL of its MCP endpoint (http)")
	f.addWords("command", "command", "a word of the command that runs on the server: the program, and again for each argument (stdio)")
	f.addSecrets("header", "headers", "a header that is sent with every request", removable)
	f.addSecrets("env", "env", "a variable in the program's environment", removable)
	f.addText("run-as", "run_as", `account that the program runs as; "" is one of its own (stdio)`)
	f.addWords("path-read", "paths.read", "a folder or file that the program may read and run, and again for each (stdio)")
	f.addWords("path-write", "paths.write", "a folder or file that the program may write, and again for each (stdio)")
	addSkillSettings(f)
	f.addEscalation("the agent's")
	f.addBool("identity-headers", "identity_headers.enabled", "send its server headers with the agent, the call and the person")
	f.addText("identity-header-agent", "identity_headers.agent", "header with the agent's name (default X-Holdpoint-Agent)")
	f.addText("identity-header-call", "identity_headers.call", "header with the call's id (default X-Holdpoint-Call)")
	f.addText("identity-header-principal", "identity_headers.principal", "header with the person (default X-Holdpoint-Principal)")
	f.addText("connection", "connection", "shared, or per_user: each person has their own")
	apiFields(f)
	f.addText("oauth-grant", "oauth.grant", "authorization_code, client_credentials, enterprise_managed or workload_identity")
	f.addText("oauth-issuer", "oauth.issuer", "the authorization server")
	f.addText("oauth-client-id", "oauth.client_id", "id of Holdpoint's client there")
	f.addSecret("oauth-client-secret", "oauth.client_secret", "the client's secret")
	f.addText("oauth-auth-method", "oauth.auth_method", "client_secret_basic, client_secret_post, private_key_jwt or none")
	f.addSecret("oauth-private-key", "oauth.private_key", "the client's private key")
	f.addBool("oauth-trust-origin", "oauth.trust_origin", "whether the server's metadata may name a resource above its own URL, such as its whole origin")
	f.addList("oauth-scopes", "oauth.scopes", "scopes to ask for, with commas between")
	f.addText("oauth-idp-issuer", "oauth.idp.issuer", "the enterprise's identity provider")
	f.addText("oauth-idp-client-id", "oauth.idp.client_id", "id of Holdpoint's client there")
	f.addSecret("oauth-idp-client-secret", "oauth.idp.client_secret", "that client's secret")
	return f
}

// apiFields adds the flags for the fields of a skill over an HTTP API.
func apiFields(f *fieldFlags) {
	f.addText("base-url", "base_url", "base URL of the API; with openapi the default is the first server in the document (openapi, http-api)")
	f.addDocument("spec", "its OpenAPI document: a URL, which the server reads at each listing, or a file, which is sent; - is standard input (openapi)")
	f.addFilters("include", "operations of the document to offer: an operationId, or tag=TAG,method=METHOD,path=PATH,operation_id=ID with any of these; * and ** match any characters (openapi)")
	f.addFilters("exclude", "operations to leave out again, in the same form (openapi)")
	f.addEndpoints("endpoints-file", "file with its endpoints, YAML or JSON as in holdpoint.yaml; - is standard input (http-api)")
	f.addText("auth-type", "auth.type", "how requests are authenticated: bearer, basic or api_key (openapi, http-api)")
	f.addText("auth-in", "auth.in", "where the key goes: header, query or cookie (api_key)")
	f.addText("auth-name", "auth.name", "name of the header, query parameter or cookie (api_key)")
	f.addText("auth-username", "auth.username", "the user (basic)")
	f.addSecret("auth-secret", "auth.secret", "the token, the password or the key")
	f.addBool("preview", "preview", "show reviewers the current state of what a PUT, PATCH or DELETE would change (openapi)")
	f.addBool("output-schemas", "output_schemas", "whether answers have to match the response schemas of the document, which is the default (openapi)")
}

// addDocument adds a flag with a URL, which is sent, or a file, whose text is sent byte for byte.
func (f *fieldFlags) addDocument(flag, usage string) {
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

func (f *fieldFlags) addFilters(flag, usage string) {
	v := f.cmd.Flags().StringArray(flag, nil, usage)
	f.addField(flag, flag, func() (any, error) { return parseFilters(flag, *v) })
}

// parseFilters parses filters. An empty one is skipped, so that all can be removed.
func parseFilters(flag string, texts []string) ([]tool.OperationFilter, error) {
	list := []tool.OperationFilter{}
	for _, text := range texts {
		if text == "" {
			continue
		}
		filter, err := setting.ParseFilter(text)
		if err != nil {
			return nil, misusef("--%s %s: %v", flag, text, err)
		}
		list = append(list, filter)
	}
	return list, nil
}

func (f *fieldFlags) addEndpoints(flag, usage string) {
	v := f.cmd.Flags().String(flag, "", usage)
	f.addField(flag, "endpoints", func() (any, error) {
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

// Command conformanceclient is the client that the MCP conformance suite tests: the packages mcptool and oauthclient, used as a
// conversation uses them. A plain HTTP client stands in for the person's browser.
//
//	conformanceclient URL
//
// The suite sets the scenario in MCP_CONFORMANCE_SCENARIO and its parameters in MCP_CONFORMANCE_CONTEXT. The database is DATABASE_URL,
// or an embedded cluster that all processes of the suite share. Each process has its own skill and redirect URI.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// patience bounds a scenario. The suite allows 30 s.
const patience = 28 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformanceclient:", err)
		os.Exit(1)
	}
}

// scenario is a scenario of the suite with its parameters.
type scenario struct {
	name         string
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Issuer       string `json:"issuer"`
	PrivateKey   string `json:"private_key_pem"`
	IDPClientID  string `json:"idp_client_id"`
	IDPIssuer    string `json:"idp_issuer"`
	IDToken      string `json:"idp_id_token"`
	WorkloadJWT  string `json:"valid_jwt"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) (err error) {
	if len(args) == 0 {
		return errors.New("argument: must be the URL of the suite's server")
	}
	sc := scenario{name: getenv("MCP_CONFORMANCE_SCENARIO")}
	if text := getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &sc); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	server := tool.Server{
		SkillID: uuid.New(), Skill: "conformance", Revision: 1, Transport: tool.HTTP, URL: args[len(args)-1],
		Authorization: sc.buildAuthorization(),
	}
	st, err := openState(ctx, getenv, log, server, sc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close(context.WithoutCancel(ctx))) }()
	return st.callTools(ctx, sc)
}

// buildAuthorization returns the settings that an operator would choose for the scenario.
func (sc scenario) buildAuthorization() tool.Authorization {
	a := tool.Authorization{
		ClientID: sc.ClientID, ClientSecret: sc.ClientSecret, Issuer: sc.Issuer, PrivateKey: sc.PrivateKey,
		TrustOrigin: true, // the metadata of auth/metadata-var2 apply to the whole origin
	}
	switch sc.name {
	case "auth/client-credentials-jwt", "auth/client-credentials-basic":
		a.Grant = tool.ClientCredentials
	case "auth/wif-jwt-bearer":
		a.Grant = tool.WorkloadIdentity
	case "auth/enterprise-managed-authorization":
		a.Grant = tool.EnterpriseManaged
		a.IDPIssuer, a.IDPClientID = sc.IDPIssuer, sc.IDPClientID
	}
	return a
}

// callTools lists the server's tools and calls each.
func (st *state) callTools(ctx context.Context, sc scenario) error {
	var listing tool.Listing
	err := st.connectAsNeeded(ctx, sc, func() (err error) {
		listing, err = st.source.List(ctx, st.server)
		return err
	})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	var failures error
	for i := range listing.Tools {
		definition := &listing.Tools[i]
		request := tool.CallRequest{
			CallID: uuid.New(), Tool: definition.Name, Arguments: sc.chooseArguments(definition.Name, listing.Tools), Definition: definition,
			Caller: tool.Caller{Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`), Ask: acceptForms},
		}
		for range sc.callCount() {
			err := st.connectAsNeeded(ctx, sc, func() error {
				_, err := st.source.Call(ctx, st.server, request)
				return err
			})
			if err != nil {
				failures = errors.Join(failures, fmt.Errorf("call %s: %w", definition.Name, err))
			}
		}
	}
	return failures
}

// callCount returns how often to call each tool. The authorization server that migrates does so between two calls.
func (sc scenario) callCount() int {
	if sc.name == "auth/authorization-server-migration" {
		return 2
	}
	return 1
}

// chooseArguments returns the arguments that the scenario's server expects.
func (sc scenario) chooseArguments(name string, tools []tool.Definition) json.RawMessage {
	for _, c := range sc.ToolCalls {
		if c.Name == name {
			return c.Arguments
		}
	}
	switch name {
	case "add_numbers":
		return json.RawMessage(`{"a":5,"b":3}`)
	case "valid_tool":
		return json.RawMessage(`{"region":"us-west1"}`)
	case "lookup_user":
		return json.RawMessage(`{"id":"u-1"}`)
	case "json_schema_echo":
		for i := range tools {
			if tools[i].Name == "json_schema_2020_12_tool" {
				return json.RawMessage(`{"schema":` + string(tools[i].InputSchema) + `}`)
			}
		}
	}
	return nil
}

// connectAsNeeded runs f. If f needs a connection, it connects and runs f again, up to maxConnects times.
func (st *state) connectAsNeeded(ctx context.Context, sc scenario, f func() error) error {
	for round := 1; ; round++ {
		err := f()
		var failure *tool.Failure
		if !errors.As(err, &failure) || failure.Connect == nil || round > maxConnects {
			return err
		}
		st.log.Info("connecting", "reason", failure.Connect.Reason)
		if err := st.connectSkill(ctx, sc); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
	}
}

const maxConnects = 3

// acceptForms answers questions with the defaults that the server declares.
func acceptForms(_ context.Context, questions []tool.Question) ([]json.RawMessage, error) {
	answers := make([]json.RawMessage, len(questions))
	for i, question := range questions {
		var err error
		if answers[i], err = acceptForm(question); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func acceptForm(question tool.Question) (json.RawMessage, error) {
	var form struct {
		RequestedSchema struct {
			Properties map[string]struct {
				Default json.RawMessage `json:"default"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(question.Params, &form); err != nil {
		return nil, fmt.Errorf("read the form: %w", err)
	}
	content := map[string]json.RawMessage{}
	for name, field := range form.RequestedSchema.Properties {
		if field.Default != nil {
			content[name] = field.Default
		}
	}
	return json.Marshal(map[string]any{"action": "accept", "content": content})
}

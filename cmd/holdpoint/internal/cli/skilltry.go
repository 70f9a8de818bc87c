package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newSkillDocumentCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "document SKILL", Short: "Print the OpenAPI document that a skill was given",
		Long:    `Print the OpenAPI document that a skill was given, byte for byte. One that has its document at a URL (spec) has none.`,
		Example: "  holdpoint skill document shop > shop.yaml",
		Args:    usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.get(cmd.Context(), "skills/"+client.Segment(args[0])+"/document", nil)
			if err != nil {
				return err
			}
			return write(e.Stdout, string(text))
		},
	}
}

// tried is what came of trying a call.
type tried struct {
	Request struct {
		Method  string `json:"method"`
		URL     string `json:"url"`
		Headers []struct {
			Name   string `json:"name"`
			Value  string `json:"value"`
			Secret bool   `json:"secret"`
		} `json:"headers"`
	} `json:"request"`
	Result  json.RawMessage `json:"result"`
	IsError bool            `json:"is_error"`
	Failure *string         `json:"failure"`
	Status  *int            `json:"status"`
}

func newSkillTryCmd(e *Env) *cobra.Command {
	var arguments, file string
	cmd := &cobra.Command{
		Use: "try SKILL TOOL", Short: "Make one call of a skill over an HTTP API that reads, and see how it answers",
		Long: `Make one call of a skill over an HTTP API, to see how it answers: the request, secrets masked, goes to the
standard error, the result to the standard output. Only tools that read (GET, HEAD) can be tried. The
trial is recorded in the audit; it is no agent's call. Exits with 1 if the API did not answer, or with
an error.`,
		Example: `  holdpoint skill try shop getOrder --args '{"id":"A-3391"}'`,
		Args:    usage(cobra.ExactArgs(2)), ValidArgsFunction: e.completeNames("skills"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := []byte(arguments)
			if file != "" {
				var err error
				if text, err = e.readFile(file); err != nil {
					return err
				}
			}
			if !json.Valid(text) {
				return misuse("the arguments are not JSON")
			}
			answer, err := e.post(cmd.Context(), "skills/"+client.Segment(args[0])+"/try",
				map[string]any{"tool": args[1], "arguments": json.RawMessage(text)})
			if err != nil {
				return err
			}
			return e.printTried(answer)
		},
	}
	cmd.Flags().StringVar(&arguments, "args", "{}", "the arguments: a JSON object")
	cmd.Flags().StringVar(&file, "args-file", "", `a file with the arguments; "-" is the standard input`)
	cmd.MarkFlagsMutuallyExclusive("args", "args-file")
	return cmd
}

func (e *Env) printTried(text json.RawMessage) error {
	found, err := decode[tried](text)
	if err != nil {
		return err
	}
	if e.json {
		err = e.printJSON(text)
	} else {
		err = e.showTried(found)
	}
	if err == nil && (found.IsError || found.Failure != nil) {
		err = &ExitError{Code: ExitFailure}
	}
	return err
}

func (e *Env) showTried(found tried) error {
	e.notef("%s %s", found.Request.Method, found.Request.URL)
	for _, h := range found.Request.Headers {
		value := h.Value
		if h.Secret {
			value = "(secret)"
		}
		e.notef("%s: %s", h.Name, value)
	}
	status := ""
	if found.Status != nil {
		status = "HTTP " + strconv.Itoa(*found.Status)
	}
	if found.Failure != nil {
		e.notef("%s", strings.TrimSpace(status+" "+*found.Failure))
		return nil
	}
	e.notef("%s", status)
	var result struct {
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			MimeType string `json:"mimeType"`
		} `json:"content"`
	}
	if err := json.Unmarshal(found.Result, &result); err != nil {
		return fmt.Errorf("understand the result: %w", err)
	}
	for _, block := range result.Content {
		line := block.Text
		if block.Type != "text" {
			line = strings.TrimSpace("(" + block.Type + " " + block.MimeType + "; see --json)")
		}
		if err := write(e.Stdout, Visible(line)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

package cli

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newAPICmd(e *Env) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use: "api [METHOD PATH]", Short: "Send any request to the API",
		Long: `Send any request to the API, with the same server and credential as other commands, and print the
answer. Without arguments, list the operations of the API.

PATH is a path of docs/openapi.json, with or without /api/v1, and may have a query. JSON answers are
indented, unless --json is given; all others, such as exports and event streams, are printed as they
arrive. An unsuccessful response is printed as an error, with the exit code 1.`,
		Example: `  holdpoint api
  holdpoint api GET '/calls?limit=5&status=parked'
  holdpoint api POST /assignments --data '{"agent":"billing","skill":"files"}'
  holdpoint api PATCH /api/v1/skills/files --data @patch.json`,
		Args: usage(func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 || len(args) > 2:
				return misusef("arguments: must be a method and a path, such as GET /agents")
			case len(args) == 2 && !strings.HasPrefix(args[1], "/"):
				return misusef("path %q: must be a path that begins with a slash, such as /agents", args[1])
			}
			return nil
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&data, "data", "", "body of the request: JSON, @FILE, or - for standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return e.listOperations()
		}
		return e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
			defer stop()
			var body []byte
			var err error
			if name, isFile := strings.CutPrefix(data, "@"); isFile || data == "-" {
				body, err = e.readFile(cmp.Or(name, data))
			} else if cmd.Flags().Changed("data") {
				body = []byte(data)
			}
			if err != nil {
				return err
			}
			return e.sendRequest(ctx, api, strings.ToUpper(args[0]), args[1], body)
		})(cmd, args)
	}
	return cmd
}

// sendRequest sends a request and prints the answer.
func (e *Env) sendRequest(ctx context.Context, api *client.Client, method, path string, body []byte) error {
	if !strings.HasPrefix(path, "/api/v1/") {
		path = "/api/v1" + path
	}
	var indented bytes.Buffer
	err := api.Stream(ctx, method, path, body, func(isJSON bool) io.Writer {
		if isJSON && !e.json {
			return &indented
		}
		return e.Stdout
	})
	if err != nil || indented.Len() == 0 {
		return err
	}
	return write(e.Stdout, Visible(prettyJSON(bytes.TrimSpace(indented.Bytes())))+"\n")
}

func (e *Env) listOperations() error {
	operations := client.Operations()
	if e.json {
		items := make([]map[string]string, len(operations))
		for i, o := range operations {
			items[i] = map[string]string{"method": o.Method, "path": o.Path, "summary": o.Summary}
		}
		return e.printEncoded(map[string]any{"items": items})
	}
	rows := make([][]string, len(operations))
	for i, o := range operations {
		rows[i] = []string{o.Method, strings.TrimPrefix(o.Path, "/api/v1"), o.Summary}
	}
	return e.printTable([]string{"METHOD", "PATH", "SUMMARY"}, rows)
}

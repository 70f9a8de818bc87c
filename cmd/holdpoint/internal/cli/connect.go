package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newConnectCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "connect AGENT",
		Short: "Join a client that speaks MCP over stdio with an agent's endpoint",
		Long: `Join a client that speaks MCP over its standard streams only (Claude Desktop, for instance) with an
agent's endpoint. It is started by that client, as its MCP server. Set HOLDPOINT_URL and
HOLDPOINT_TOKEN in its environment: the agent's key, or the token of a person who may act as it.

JSON-RPC messages, one a line, pass from the standard input to the endpoint and from there to the
standard output, byte for byte. Nothing else is written there; what a person may want to know
goes to the standard error. Any number of requests may be under way.

Requests that were not sent because the server is away are tried again for two minutes; calls
that the server has are waited for, over lost connections and restarts. A session that the server does
not know any more is begun anew. When the standard input ends, or at SIGTERM, the session is
ended; calls that were made in it go their way.`,
		Example: `  HOLDPOINT_TOKEN=$AGENT_KEY holdpoint connect billing
  npx @modelcontextprotocol/inspector holdpoint connect billing`,
		Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: e.completeNames("agents"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if e.token == "" {
				return misuse("there is no credential: set HOLDPOINT_TOKEN to a key of agent %s", args[0])
			}
			api, err := e.client()
			if err != nil {
				return err
			}
			signal.Ignore(syscall.SIGPIPE) // a client that is gone is an error of writing, after which the session is ended
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return api.NewBridge(client.BridgeConfig{Agent: args[0], In: e.Stdin, Out: e.Stdout, Log: e.notef}).Run(ctx)
		},
	}
}

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newConnectCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "connect AGENT",
		Short: "Connect an MCP client over stdio to an agent's endpoint",
		Long: `Connect an MCP client that only speaks over its standard streams (Claude Desktop, for instance) to an
agent's endpoint. The client starts this command as its MCP server. Set HOLDPOINT_URL and
HOLDPOINT_TOKEN in its environment: the agent's key, or the token of a person who may act as it.

JSON-RPC messages, one a line, pass from the standard input to the endpoint and from there to the
standard output, byte for byte. Nothing else is written there; notes for people go to the standard
error. Any number of requests may be under way.

Requests that were not sent because the server is away are retried for two minutes. Calls that the
server has received are waited for, through lost connections and restarts. A session that the server
has forgotten is started again. When the standard input ends, or at SIGTERM, the session ends; calls
that were made in it continue.`,
		Example: `  HOLDPOINT_TOKEN=$AGENT_KEY holdpoint connect billing
  npx @modelcontextprotocol/inspector holdpoint connect billing`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if e.token == "" {
				return misusef("there is no credential: set HOLDPOINT_TOKEN to a key of agent %s", args[0])
			}
			signal.Ignore(syscall.SIGPIPE) // a closed output is an error of writing, which ends the session
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			return api.NewBridge(client.BridgeConfig{Agent: args[0], In: e.Stdin, Out: e.Stdout, Log: e.notef}).Run(ctx)
		}),
	}
}

package cli

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newServerCmd(e *Env) *cobra.Command {
	return newGroup("server", "The server", &cobra.Command{
		Use: "show", Short: "Show the server's settings, and the instances that run beside it",
		Example: "  holdpoint server show",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			reply, err := api.GetServer(ctx)
			return printReply(e, reply, err, func(s *client.Server) error {
				pairs := []string{
					"version", s.Version, "public_url", s.PublicURL, "data_dir", s.DataDir, "database", s.Database,
					"stdio", strconv.FormatBool(s.Stdio), "stdio_from_dashboard", strconv.FormatBool(s.StdioFromDashboard),
					"stdio_allow", strings.Join(s.StdioAllow, "; "), "stdio_paths", strings.Join(s.StdioPaths, ", "),
					"allow_self_approval", strconv.FormatBool(s.AllowSelfApproval), "high_risk_max_age", s.HighRiskMaxAge, "max_grant_time", s.MaxGrantTime,
					"dual_control", strconv.FormatBool(s.DualControl), "separate_roles", strconv.FormatBool(s.SeparateRoles), "person_tokens", strconv.FormatBool(s.PersonTokens),
					"trusted_hosts", strings.Join(s.TrustedHosts, ", "),
				}
				for _, i := range s.Instances {
					name := "another, since"
					if i.This {
						name = "this one, since"
					}
					pairs = append(pairs, name, formatTime(&i.StartedAt))
				}
				return e.printFields(pairs...)
			})
		}),
	})
}

// checkReady returns an error unless the server answers within the time that it is ready.
func (e *Env) checkReady(ctx context.Context, within time.Duration) error {
	api, err := e.newClient("") // /readyz needs no credential
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err = api.Send(ctx, http.MethodGet, "/readyz", nil)
	return err
}

func newHealthCmd(e *Env) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "Check that the server is ready",
		Long: `Ask the server's /readyz. The exit code is 0 if the server is ready; else it is 1, and the reason is
printed. Images use this command as their health check.`,
		Example: "  holdpoint health --url http://127.0.0.1:8080",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.checkReady(cmd.Context(), timeout); err != nil {
				return err
			}
			if e.json {
				return e.printEncoded(map[string]bool{"ready": true})
			}
			return write(e.Stdout, "ready\n")
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for the answer") // /readyz gives the database 5 s
	return cmd
}

package cli

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

func newAuditCmd(e *Env) *cobra.Command {
	return group("audit", "What happened, and who did it", newAuditListCmd(e), newAuditExportCmd(e))
}

type auditView struct {
	At    time.Time `json:"at"`
	Actor struct {
		Kind string  `json:"kind"`
		ID   *string `json:"id"`
		Name *string `json:"name"`

		Issuer  *string `json:"issuer"`
		Subject *string `json:"subject"`
		Alike   bool    `json:"alike"`
	} `json:"actor"`
	Action     string          `json:"action"`
	Subject    string          `json:"subject"`
	Data       json.RawMessage `json:"data"`
	Credential *credentialView `json:"credential"`
	Address    *string         `json:"address"`
}

func (v *auditView) by() string {
	switch {
	case v.Actor.Name != nil && v.Actor.Subject != nil:
		person := personName{Name: *v.Actor.Name, Issuer: value(v.Actor.Issuer), Subject: *v.Actor.Subject, Alike: v.Actor.Alike}
		return person.short()
	case v.Actor.Name != nil:
		return *v.Actor.Name
	case v.Actor.ID != nil:
		return v.Actor.Kind + " " + *v.Actor.ID
	}
	return v.Actor.Kind
}

// auditSearch are the flags that select events.
type auditSearch struct {
	actor, action, subject string
	times                  timeSpan
}

func (s *auditSearch) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.actor, "actor", "", "only events of this person or agent: a name or an id; or system")
	cmd.Flags().StringVar(&s.action, "action", "", "only this action; call alone is all actions of calls")
	cmd.Flags().StringVar(&s.subject, "subject", "", "only events about the call, skill, agent or person of this id")
	s.times.bind(cmd)
}

func (s *auditSearch) add(query url.Values) {
	add(query, map[string]string{"actor": s.actor, "action": s.action, "subject": s.subject})
	s.times.add(query)
}

func newAuditListCmd(e *Env) *cobra.Command {
	var p page
	var search auditSearch
	cmd := &cobra.Command{
		Use: "list", Short: "List events, newest first", Args: usage(cobra.NoArgs),
		Example: "  holdpoint audit list --actor rita --action approval --from 2026-01-01",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := p.query()
			search.add(query)
			text, err := e.get(cmd.Context(), "audit", query)
			if err != nil {
				return err
			}
			return printList(e, text, []string{"AT", "ACTION", "BY", "WITH", "FROM", "ABOUT", "DATA"}, func(v auditView) []string {
				data := ""
				if string(v.Data) != "null" {
					data = clipped(string(v.Data), 60)
				}
				return []string{moment(&v.At), v.Action, v.by(), v.Credential.words(), value(v.Address), v.Subject, data}
			})
		},
	}
	search.bind(cmd)
	p.bind(cmd)
	return cmd
}

func newAuditExportCmd(e *Env) *cobra.Command {
	var search auditSearch
	cmd := &cobra.Command{
		Use: "export", Short: "Write all events that a search selects, newest first, as JSON Lines", Args: usage(cobra.NoArgs),
		Long: `Write all events that all flags together select, newest first, an event a line, however many there are. It is
recorded who exports what. If the command fails, what it wrote is not all of it.`,
		Example: "  holdpoint audit export --from 2026-01-01 > audit.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			search.add(query)
			return e.stream(cmd, "audit/export", query)
		},
	}
	search.bind(cmd)
	return cmd
}

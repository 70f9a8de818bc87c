package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
	"github.com/holdpoint/holdpoint/internal/query"
)

func newTeamsCmd(e *Env) *cobra.Command {
	return newGroup("teams", "Teams: members, delegations and on-call schedules",
		&cobra.Command{
			Use: "list", Short: "List teams with their members at this moment", Example: "  holdpoint teams list",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
				reply, err := api.ListTeams(ctx)
				return printList(e, reply, err, []string{"NAME", "MEMBERS", "ON CALL", "SCHEDULE"}, func(t *client.Team) []string {
					return []string{t.Name, formatMembers(t.Members), formatShifts(t.OnCall), formatSchedule(t.Schedule)}
				})
			}),
		},
		&cobra.Command{
			Use: "reviewers", Short: "List reviewers, to name a substitute by id", Example: "  holdpoint teams reviewers",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
				reply, err := api.ListReviewers(ctx)
				return printList(e, reply, err, []string{"ID", "NAME", "ISSUER", "SUBJECT"}, func(p *client.PersonName) []string {
					return []string{p.ID, p.Name, p.Issuer, p.Subject}
				})
			}),
		},
		newTeamsScheduleCmd(e),
		&cobra.Command{
			Use: "fetch-schedule TEAM", Short: "Fetch the on-call calendar of a team now",
			Long:    "Fetch the on-call calendar of a team now, and report whether it could be read. If not, the exit code is 1.",
			Example: "  holdpoint teams fetch-schedule payments",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.FetchSchedule(ctx, args[0])
				return printTest(e, reply, err, judgeSchedule)
			}),
		},
		&cobra.Command{
			Use: "delete-schedule TEAM", Short: "Delete the on-call calendar of a team", Example: "  holdpoint teams delete-schedule payments",
			RunE: e.deleteOne((*client.Client).DeleteSchedule, "Deleted."),
		},
		&cobra.Command{
			Use: "delegations", Short: "List delegations that have not ended", Example: "  holdpoint teams delegations",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
				reply, err := api.ListDelegations(ctx)
				return printList(e, reply, err, []string{"ID", "TEAM", "PERSON", "GIVEN BY", "ENDS"}, func(d *client.Delegation) []string {
					by := "operator " + value(d.CreatedBy)
					if d.Member != nil {
						by = d.Member.Name
					}
					return []string{d.ID, d.Team, d.Person.Name, by, formatTime(&d.Ends)}
				})
			}),
		},
		newTeamsDelegateCmd(e),
		&cobra.Command{
			Use: "end-delegation ID", Short: "End a delegation now", Example: "  holdpoint teams end-delegation 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.deleteOne((*client.Client).EndDelegation, "Ended."),
		})
}

// formatMembers names members, with how they are members if they are not by themselves.
func formatMembers(members []client.Membership) string {
	var names []string
	for i := range members {
		m := &members[i]
		name := m.Person.Name
		switch m.Way {
		case "delegation":
			name += " (delegated)"
		case "substitution":
			name += " (for " + value(m.For).Name + ")"
		case "on_call":
			name += " (on call)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func formatShifts(shifts []client.Shift) string {
	var list []string
	for i := range shifts {
		s := &shifts[i]
		who := s.Label + " (unknown here)"
		if len(s.People) > 0 {
			names := make([]string, len(s.People))
			for j := range s.People {
				names[j] = s.People[j].Name
			}
			who = strings.Join(names, ", ")
		}
		list = append(list, who+" until "+formatTime(&s.Ends))
	}
	return strings.Join(list, "; ")
}

func formatSchedule(s *client.Schedule) string {
	switch {
	case s == nil:
		return ""
	case s.FailedSince != nil:
		return s.Host + ", failing since " + formatTime(s.FailedSince) + ": " + value(s.Error)
	case s.CheckedAt == nil:
		return s.Host + ", not fetched yet"
	}
	return s.Host + ", read " + formatTime(s.CheckedAt)
}

func judgeSchedule(s *client.Schedule) (string, error) {
	if s.Error != nil {
		return "", fmt.Errorf("%s %s", s.Host, *s.Error)
	}
	return "The calendar at " + s.Host + " was read", nil
}

func newTeamsScheduleCmd(e *Env) *cobra.Command {
	var variable, file string
	cmd := &cobra.Command{
		Use: "schedule TEAM --url-env VARIABLE | --url-file FILE", Short: "Set the on-call calendar of a team",
		Long: `Set the on-call calendar of a team: an iCalendar feed, such as PagerDuty and Opsgenie publish. Whoever it
names now is notified of the team's calls first, and is shown as on call. Its events name people by
e-mail address or name. The server fetches it every 5 minutes.

The URL is a credential: it is read from a variable or a file, sent once, stored encrypted and not shown
again. If the calendar cannot be read now, the exit code is 1, and the server tries again.`,
		Example: `  holdpoint teams schedule payments --url-env PAGERDUTY_ICAL_URL
  holdpoint teams schedule payments --url-file - < url.txt`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			address, err := e.readURL("url", variable, file)
			if err != nil {
				return err
			}
			reply, err := api.SetSchedule(ctx, args[0], client.ScheduleRequest{URL: address})
			return printTest(e, reply, err, judgeSchedule)
		}),
	}
	cmd.Flags().StringVar(&variable, "url-env", "", "environment variable with the URL")
	cmd.Flags().StringVar(&file, "url-file", "", "file with the URL; - is standard input")
	return cmd
}

func newTeamsDelegateCmd(e *Env) *cobra.Command {
	var person, until string
	cmd := &cobra.Command{
		Use: "delegate TEAM --to ID --until TIME", Short: "Make a reviewer a member of a team until a time",
		Long: `Make a reviewer a member of a team until a time. Operators delegate any team; members delegate their own
team, which counts only while they are members themselves.

--until is RFC 3339, or a day in UTC, which is included.`,
		Example: "  holdpoint teams delegate payments --to 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --until 2026-12-24",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			ends, err := readMoment("until", until)
			if err != nil {
				return err
			}
			if person == "" || ends == nil {
				return misusef("give --to and --until")
			}
			reply, err := api.CreateDelegation(ctx, client.DelegationRequest{Team: args[0], Person: person, Ends: *ends})
			return printReply(e, reply, err, func(d *client.Delegation) error {
				return e.printFields("ID", d.ID, "Team", d.Team, "Person", d.Person.Name, "Ends", formatTime(&d.Ends))
			})
		}),
	}
	cmd.Flags().StringVar(&person, "to", "", "id of the reviewer")
	cmd.Flags().StringVar(&until, "until", "", "when it ends")
	return cmd
}

// readMoment reads the time of a flag. A day is included. Nil: the flag was not given.
func readMoment(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // documented
	}
	at, err := query.ParseTime(text, flag == "until", nil)
	if err != nil {
		return nil, misusef("--%s %s: %w", flag, text, err)
	}
	return &at, nil
}

func newAwayCmd(e *Env) *cobra.Command {
	return newGroup("away", "Absences: who is away, and who stands in",
		&cobra.Command{
			Use: "list", Short: "List absences that have not ended", Example: "  holdpoint away list",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
				reply, err := api.ListAbsences(ctx)
				return printList(e, reply, err, []string{"ID", "PERSON", "SUBSTITUTE", "STARTS", "ENDS"}, func(a *client.Absence) []string {
					return []string{a.ID, a.Person.Name, value(a.Substitute).Name, formatTime(&a.Starts), formatTime(&a.Ends)}
				})
			}),
		},
		newAwaySetCmd(e),
		&cobra.Command{
			Use: "end ID", Short: "End an absence now", Example: "  holdpoint away end 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.deleteOne((*client.Client).EndAbsence, "Ended."),
		})
}

func newAwaySetCmd(e *Env) *cobra.Command {
	var person, substitute, from, until string
	cmd := &cobra.Command{
		Use: "set --until TIME", Short: "Say that you are away, and who stands in",
		Long: `Say that you are away until a time. Meanwhile your substitute is asked what you are asked, as if they were
a member of your teams. This gives them no role: they must be a reviewer, and decide no calls of their own.

--from and --until are RFC 3339 or a day in UTC; a day as --until is included.`,
		Example: `  holdpoint away set --until 2026-12-24 --substitute 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11
  holdpoint away set --from 2026-12-01T08:00:00Z --until 2026-12-01T18:00:00Z`,
		RunE: e.withClient(func(ctx context.Context, api *client.Client, _ []string) error {
			asked := client.AbsenceRequest{Person: given(person), Substitute: given(substitute)}
			starts, err := readMoment("from", from)
			if err != nil {
				return err
			}
			ends, err := readMoment("until", until)
			if err != nil {
				return err
			}
			if ends == nil {
				return misusef("give --until")
			}
			asked.Starts, asked.Ends = starts, *ends
			reply, err := api.CreateAbsence(ctx, asked)
			return printReply(e, reply, err, func(a *client.Absence) error {
				return e.printFields("ID", a.ID, "Person", a.Person.Name, "Substitute", value(a.Substitute).Name, "Starts", formatTime(&a.Starts), "Ends", formatTime(&a.Ends))
			})
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&person, "person", "", "id of another person; for operators")
	flags.StringVar(&substitute, "substitute", "", "id of the reviewer who stands in")
	flags.StringVar(&from, "from", "", "when it begins; by default now")
	flags.StringVar(&until, "until", "", "when it ends")
	return cmd
}

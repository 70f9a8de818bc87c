package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newPeopleCmd(e *Env) *cobra.Command {
	cmd := newGroup("people", "People: their roles, teams, sessions and links",
		newPeopleListCmd(e), newPeopleGrantCmd(e), newPeopleLinkCmd(e),
		newPeopleBlockCmd(e, "block", "Block a person: all their credentials stop working immediately", true),
		newPeopleBlockCmd(e, "unblock", "Unblock a person", false),
		&cobra.Command{
			Use: "show ID", Short: "Show a person, their rights and where those come from",
			Example: "  holdpoint people show 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).GetPerson, e.showPerson),
		},
		&cobra.Command{
			Use: "sessions ID", Short: "List the browsers that a person is signed in with",
			Example: "  holdpoint people sessions 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				reply, err := api.ListSessions(ctx, args[0])
				return printList(e, reply, err, []string{"ID", "BY", "BROWSER", "SIGNED IN", "PROVED LAST", "ENDS"}, func(s *client.Session) []string {
					return []string{s.ID, s.Method, s.Client, formatTime(&s.CreatedAt), formatTime(s.AuthenticatedAt), formatTime(&s.ExpiresAt)}
				})
			}),
		},
		&cobra.Command{
			Use: "end-session ID SESSION", Short: "End a session of a person immediately",
			Example: "  holdpoint people end-session 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f22",
			RunE:    e.deletePart((*client.Client).EndSession, "Ended."),
		},
		&cobra.Command{
			Use: "sign-out ID", Short: "End all sessions of a person immediately",
			Example: "  holdpoint people sign-out 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE: showOne(e, (*client.Client).SignOutPerson, func(ended *client.Ended) error {
				return write(e.Stdout, fmt.Sprintf("Ended %d.\n", ended.Ended))
			}),
		},
		newPeopleEraseCmd(e),
		&cobra.Command{
			Use: "export ID", Short: "Write the data about a person as one JSON object; the export is recorded",
			Example: "  holdpoint people export 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 > person.json",
			RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
				return api.ExportPerson(ctx, args[0], e.Stdout)
			}),
		},
		&cobra.Command{
			Use: "erasure ID", Short: "Show the last erasure of a person's data",
			Example: "  holdpoint people erasure 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    showOne(e, (*client.Client).GetErasure, e.showErasure),
		},
		&cobra.Command{
			Use: "unlink ID", Short: "Delete the link of a person",
			Example: "  holdpoint people unlink 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
			RunE:    e.deleteOne((*client.Client).UnlinkPerson, "Unlinked."),
		})
	cmd.SuggestFor = []string{"person", "user", "users"}
	return cmd
}

// joinUnique joins claimed and granted names, without repeating any.
func joinUnique(claimed, granted []string) string {
	all := slices.Concat(claimed, granted)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// formatLink names the person that another is linked to.
func formatLink(p *client.Person) string {
	if p.Link == nil {
		return ""
	}
	same := value(p.Link.SameAs)
	return same.Name + " (" + same.ID + ")"
}

func newPeopleListCmd(e *Env) *cobra.Command {
	var query client.ListPeopleQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List people, newest first", Example: "  holdpoint people list --text vera",
		RunE: listPage(e, (*client.Client).ListPeople, &query,
			[]string{"ID", "NAME", "ISSUER", "SUBJECT", "EMAIL", "ROLES", "TEAMS", "SIGNED IN", "BLOCKED", "SAME AS", "NOTE"}, func(p *client.Person) []string {
				var notes []string
				if p.Alike {
					notes = append(notes, "name looks like another's")
				}
				if p.InvitedBy != nil {
					notes = append(notes, "invited by "+p.InvitedBy.Name+", not verified")
				}
				if limit := formatLimit(p.ReviewLimit); limit != "" {
					notes = append(notes, "reviews only "+limit)
				}
				if p.LostRole != nil {
					notes = append(notes, "role "+*p.LostRole+" does not count")
				}
				if p.First {
					notes = append(notes, "first person")
				}
				return []string{
					p.ID, p.Name, p.Issuer, p.Subject, value(p.Email), joinUnique(p.ClaimedRoles, p.GrantedRoles), joinUnique(p.ClaimedTeams, p.GrantedTeams),
					formatTime(p.SignedInAt), formatTime(p.BlockedAt), formatLink(p), strings.Join(notes, "; "),
				}
			}),
	}
	bindPage(cmd, &query.Limit, &query.Cursor)
	cmd.Flags().StringVar(&query.Text, "text", "", "only people with this in their name, e-mail or subject")
	return cmd
}

func (e *Env) showPerson(p *client.Person) error {
	verified := "by " + p.Issuer
	switch {
	case p.InvitedBy != nil:
		verified = "no: invited by " + p.InvitedBy.Name + " (" + p.InvitedBy.ID + "); not verified"
	case p.First:
		verified = "no: the first person, by the bootstrap token"
	case p.Issuer == "holdpoint":
		verified = "no: known to this server only"
	}
	nameNote := ""
	if p.Alike {
		nameNote = "looks like another person's: compare issuer and subject"
	}
	return e.printFields("ID", p.ID, "Name", p.Name, "Issuer", p.Issuer, "Subject", p.Subject, "E-mail", value(p.Email),
		"Roles by groups", strings.Join(p.ClaimedRoles, ", "), "Roles granted", strings.Join(p.GrantedRoles, ", "),
		"Roles by tokens and links", strings.Join(p.CredentialRoles, ", "),
		"Teams by groups", strings.Join(p.ClaimedTeams, ", "), "Teams granted", strings.Join(p.GrantedTeams, ", "),
		"Reviews only", formatLimit(p.ReviewLimit), "Role without effect", value(p.LostRole),
		"Agents granted", strings.Join(p.GrantedAgents, ", "), "Verified", verified, "Name is", nameNote,
		"Signed in", formatTime(p.SignedInAt), "Blocked", formatTime(p.BlockedAt), "Sessions", count(p.Sessions), "Tokens", count(p.Tokens),
		"Same as", formatLink(p), "Created", formatTime(&p.CreatedAt))
}

func newPeopleGrantCmd(e *Env) *cobra.Command {
	var roles, teams, agents []string
	var limit reviewLimit
	cmd := &cobra.Command{
		Use: "grant ID [--role …] [--team …]", Short: "Grant a person roles and teams besides those of their groups",
		Long: `Grant a person roles and teams besides those from the groups of their identity provider. The names
replace earlier grants; an empty value removes all of them. The change takes effect immediately, except
for personal tokens, which have roles of their own.`,
		Example: `  holdpoint people grant 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --role reviewer --team payments
  holdpoint people grant 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --role ""
  holdpoint people grant 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --review-team finance --review-skill 'ledger*'`,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&roles, "role", nil, `reviewer or operator; may be given twice; "" is none`)
	flags.StringSliceVar(&agents, "agents", nil, `agents that they may act as, besides those of their roles; "*" is every one, "" none`)
	flags.StringArrayVar(&teams, "team", nil, `a team; may be given twice; "" is none`)
	limit.bindFlags(cmd)
	cmd.RunE = e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
		if !flags.Changed("role") && !flags.Changed("team") && !flags.Changed("agents") && !limit.isGiven(cmd) {
			return misusef("give --role, --team, --agents, or what the person may review")
		}
		granted := func(flag string, names []string) []string {
			if !flags.Changed(flag) {
				return nil
			}
			kept := []string{} // an empty list removes all
			for _, name := range names {
				if name != "" {
					kept = append(kept, name)
				}
			}
			return kept
		}
		reply, err := api.UpdatePerson(ctx, args[0], client.PersonChange{
			GrantedRoles: granted("role", roles), GrantedTeams: granted("team", teams), GrantedAgents: granted("agents", agents), ReviewLimit: limit.request(cmd),
		})
		return printReply(e, reply, err, e.showPerson)
	})
	return cmd
}

// reviewLimit has the flags that say which calls a reviewer may decide.
type reviewLimit struct{ teams, skills, agents []string }

func (l *reviewLimit) bindFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&l.teams, "review-team", nil, `as a reviewer, decides only calls of this team; may be given twice; "" is every call`)
	flags.StringSliceVar(&l.skills, "review-skill", nil, `likewise, of this skill; * stands for any characters`)
	flags.StringSliceVar(&l.agents, "review-agent", nil, `likewise, of this agent`)
}

func (*reviewLimit) isGiven(cmd *cobra.Command) bool {
	flags := cmd.Flags()
	return flags.Changed("review-team") || flags.Changed("review-skill") || flags.Changed("review-agent")
}

// request returns the limit that the flags give, or nil. It is a whole limit: what is left out restricts nothing.
func (l *reviewLimit) request(cmd *cobra.Command) *client.ReviewLimit {
	if !l.isGiven(cmd) {
		return nil
	}
	names := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return name == "" })
	}
	return &client.ReviewLimit{Teams: names(l.teams), Skills: names(l.skills), Agents: names(l.agents)}
}

func formatLimit(l *client.ReviewLimit) string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, of := range []struct {
		kind  string
		names []string
	}{{"teams", l.Teams}, {"skills", l.Skills}, {"agents", l.Agents}} {
		if len(of.names) > 0 {
			parts = append(parts, of.kind+" "+strings.Join(of.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

func newPeopleEraseCmd(e *Env) *cobra.Command {
	return &cobra.Command{
		Use: "erase ID", Short: "Erase the data of a blocked person",
		Long: `Erase the data of a person, who has to be blocked first. The server does it in the background:

  deleted    sessions, tokens, subscriptions, connections, conversations, files, the texts of comments,
             and arguments and results of calls made on the person's behalf
  kept       decisions and the audit log; the name and the e-mail become a pseudonym

Records under a legal hold and calls that have not ended are left. Ask again after that.`,
		Example: `  holdpoint people block 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11
  holdpoint people export 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 > person.json
  holdpoint people erase 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11`,
		RunE: showOne(e, (*client.Client).ErasePerson, e.showErasure),
	}
}

func (e *Env) showErasure(x *client.Erasure) error {
	return e.printFields("Person", x.PersonID, "Pseudonym", x.Pseudonym, "Asked by", value(x.AskedBy), "Asked", formatTime(&x.AskedAt),
		"Finished", formatTime(x.FinishedAt), "Erased", formatCounts(x.Erased), "Left", formatCounts(x.Left))
}

// formatCounts lists numbers by kind.
func formatCounts(counts map[string]int64) string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if counts[kind] > 0 {
			list = append(list, fmt.Sprintf("%s %d", strings.ReplaceAll(kind, "_", " "), counts[kind]))
		}
	}
	return strings.Join(list, ", ")
}

func newPeopleBlockCmd(e *Env, verb, short string, blocked bool) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short,
		Example: "  holdpoint people " + verb + " 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			reply, err := api.UpdatePerson(ctx, args[0], client.PersonChange{Blocked: &blocked})
			return printReply(e, reply, err, e.showPerson)
		}),
	}
}

func newPeopleLinkCmd(e *Env) *cobra.Command {
	var same string
	cmd := &cobra.Command{
		Use: "link ID --same-as ID", Short: "Declare a person to be the same as another",
		Long: `Declare a person to be the same as another, for a person with two ways to sign in. From then on they
use the other's connections, and so the other's accounts at the skills: be sure.`,
		Example: "  holdpoint people link 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 --same-as 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f22",
		RunE: e.withClient(func(ctx context.Context, api *client.Client, args []string) error {
			if same == "" {
				return misusef("name the other person with --same-as")
			}
			reply, err := api.LinkPerson(ctx, args[0], client.LinkRequest{SameAs: same})
			return printReply(e, reply, err, func(p *client.Person) error {
				return write(e.Stdout, escapeCell(p.Name+" is the same as "+formatLink(p))+".\n")
			})
		}),
	}
	cmd.Flags().StringVar(&same, "same-as", "", "the id of the person they are")
	return cmd
}

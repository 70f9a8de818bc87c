package ui

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/operate/admin"
	"github.com/holdpoint/holdpoint/ui/operate/rules"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/teams"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// rule lists the roles that may use a route. The zero value allows no one.
type rule []identity.Role

func reviewers() rule { return rule{identity.Reviewer} }

func operators() rule { return rule{identity.Operator} }

func both() rule { return rule{identity.Reviewer, identity.Operator} }

// Route is one row of the table of routes.
type Route struct {
	Pattern string // method and path
	Rule    rule
	do      http.HandlerFunc
}

// Routes returns all routes for signed-in people.
func (u *UI) Routes() []Route {
	return slices.Concat(u.reviewRoutes(), u.historyRoutes(), u.conversationRoutes(), u.skillRoutes(), u.agentRoutes(), u.ruleRoutes(), u.grantRoutes(), u.changeRoutes(),
		u.connectionRoutes(), u.memberRoutes(), u.teamRoutes(), u.settingsRoutes())
}

// ListRoutes returns the routes without working handlers, to check their patterns and rules.
func ListRoutes() []Route {
	u := &UI{Shell: shell.New(shell.Config{})}
	u.makeHandlers()
	return u.Routes()
}

func (u *UI) reviewRoutes() []Route {
	calls, decisions, questions := u.review.Calls, u.review.Decisions, u.review.Questions
	return []Route{
		{"GET /{$}", both(), u.queue.ShowQueue},
		{"GET /next", reviewers(), u.queue.ShowNext},
		{"GET /queue/views", both(), u.queue.ShowViews},
		{"POST /queue/views", both(), u.queue.SaveView},
		{"POST /queue/views/delete", both(), u.queue.DeleteView},
		{"GET /queue/{form...}", both(), u.queue.ToQueue},
		{"GET /calls/{id}", both(), calls.ShowCall},
		{"GET /calls/{id}/arguments", both(), calls.DownloadArguments},
		{"GET /calls/{id}/result", both(), calls.DownloadResult},
		{"GET /calls/{id}/before", both(), calls.ShowBefore},
		{"GET /calls/{id}/files/{file}", both(), calls.DownloadFile},
		{"POST /calls/{id}/reveal", both(), calls.Reveal},
		{"POST /calls/{id}/approve", reviewers(), decisions.Approve},
		{"POST /calls/{id}/confirm", reviewers(), decisions.Confirm},
		{"POST /calls/{id}/reject", reviewers(), decisions.Reject},
		{"POST /calls/{id}/edit", reviewers(), decisions.Edit},
		{"POST /calls/{id}/extend", reviewers(), decisions.Extend},
		{"POST /calls/{id}/undo", reviewers(), decisions.Undo},
		{"POST /calls/{id}/break-glass", reviewers(), decisions.BreakGlass},
		{"POST /calls/{id}/review-glass", reviewers(), decisions.ReviewGlass},
		{"POST /calls/{id}/claim", reviewers(), calls.Claim},
		{"POST /calls/{id}/release", reviewers(), calls.Release},
		{"POST /calls/{id}/assign", reviewers(), calls.Assign},
		{"POST /calls/{id}/comments", reviewers(), calls.Comment},
		{"POST /calls/{id}/questions/{number}/approve", reviewers(), questions.ApproveQuestion},
		{"POST /calls/{id}/questions/{number}/reject", reviewers(), questions.RejectQuestion},
		{"POST /calls/{id}/questions/{number}/reveal", both(), questions.RevealQuestion},
		{"POST /calls/{id}/seen", both(), calls.Seen},
		{"GET /calls/{id}/like", reviewers(), u.review.Batches.ShowLike},
		{"POST /calls/{id}/like", reviewers(), u.review.Batches.DecideLike},
		{"POST /calls/{id}/resolve", operators(), calls.Resolve},
		{"POST /calls/{id}/cancel", operators(), calls.Cancel},
	}
}

// historyRoutes are about the past: calls, the audit log, and figures.
func (u *UI) historyRoutes() []Route {
	return []Route{
		{"GET /calls", both(), u.history.Calls.ShowHistory},
		{"GET /calls/export", both(), u.history.Calls.ExportCalls},
		{"GET /audit", operators(), u.history.Audit.ShowAudit},
		{"GET /audit/export", operators(), u.history.Audit.ExportAudit},
		{"GET /search", both(), u.search.Search},          // people are for operators
		{"GET /insights", both(), u.figures.ShowInsights}, // figures by person are for operators
		{"GET /insights/tools", both(), u.figures.ShowToolInsights},
	}
}

// conversationRoutes are about the conversations of agents. Everyone may read them, but only the person of a conversation may
// send messages.
func (u *UI) conversationRoutes() []Route {
	talks := u.conversations.Talks
	return []Route{
		{"GET /conversations", both(), u.conversations.List.ShowConversations},
		{"GET /conversations/{id}", both(), u.conversations.List.ShowConversation},
		{"GET /conversations/new", both(), talks.NewTalk},
		{"POST /conversations/new", both(), talks.StartTalk},
		{"GET /conversations/{id}/entries/{seq}", both(), talks.ShowEntry},
		{"POST /conversations/{id}/messages", both(), talks.Say},
		{"POST /conversations/{id}/stop", both(), talks.StopTalk},
		{"POST /conversations/{id}/close", both(), talks.CloseTalk},
		{"POST /conversations/{id}/fork", both(), talks.Fork},
	}
}

func (u *UI) skillRoutes() []Route {
	skills, tools, imports := u.skills.Skills, u.skills.Tools, u.skills.Imports
	return []Route{
		{"GET /skills", both(), skills.ShowSkills},
		{"GET /skills/new", operators(), skills.NewSkill},
		{"POST /skills/new", operators(), skills.CreateSkill},
		{"GET /skills/{id}", both(), skills.ShowSkill},
		{"GET /skills/{id}/edit", operators(), skills.EditSkill},
		{"POST /skills/{id}/edit", operators(), skills.SaveSkill},
		{"GET /skills/{id}/delete", operators(), skills.ConfirmDeleteSkill},
		{"POST /skills/{id}/delete", operators(), skills.DeleteSkill},
		{"POST /skills/{id}/ask", operators(), skills.AskSkill},
		{"POST /skills/{id}/probe", operators(), skills.ProbeSkill},
		{"GET /skills/{id}/tools", both(), tools.ShowTool},
		{"POST /skills/{id}/tools", operators(), tools.ChangeTool},
		{"POST /skills/{id}/accept", operators(), tools.AcceptTool},
		{"POST /skills/{id}/refuse", operators(), tools.RefuseTool},
		{"POST /skills/{id}/connect", both(), u.connections.Connect}, // their own account; a shared one is for operators

		{"GET /imports/new", operators(), imports.NewImport},
		{"POST /imports/new", operators(), imports.StartImport},
		{"GET /imports/{id}", operators(), imports.ShowOperations},
		{"POST /imports/{id}", operators(), imports.ChooseOperations},
		{"GET /imports/{id}/credentials", operators(), imports.AskCredentials},
		{"POST /imports/{id}/credentials", operators(), imports.KeepCredentials},
		{"GET /imports/{id}/try", operators(), imports.ShowTrial},
		{"POST /imports/{id}/try", operators(), imports.TryImport},
		{"POST /imports/{id}/save", operators(), imports.SaveImport},
		{"POST /imports/{id}/drop", operators(), imports.DropImport},
	}
}

func (u *UI) agentRoutes() []Route {
	const one = "/agents/{id}/callbacks/{callback}"
	agents, assignments, c := u.agents.Agents, u.agents.Assignments, u.agents.Callbacks
	return []Route{
		{"GET /agents", both(), agents.ShowAgents},
		{"GET /agents/new", operators(), agents.NewAgent},
		{"POST /agents/new", operators(), agents.CreateAgent},
		{"GET /agents/{id}", both(), agents.ShowAgent},
		{"GET /agents/{id}/edit", operators(), agents.EditAgent},
		{"POST /agents/{id}/edit", operators(), agents.SaveAgent},
		{"GET /agents/{id}/delete", operators(), agents.ConfirmDeleteAgent},
		{"POST /agents/{id}/delete", operators(), agents.DeleteAgent},
		{"GET /agents/{id}/assign", operators(), assignments.ChooseTools},
		{"POST /agents/{id}/assign", operators(), assignments.Assign},
		{"POST /agents/{id}/unassign", operators(), assignments.Unassign},
		{"POST /agents/{id}/keys", operators(), agents.MakeKey},
		{"POST /agents/{id}/keys/{key}/revoke", operators(), agents.RevokeKey},

		{"GET /agents/{id}/callbacks", operators(), c.NewCallback},
		{"POST /agents/{id}/callbacks", operators(), c.CreateCallback},
		{"GET " + one, operators(), c.OfCallback(c.ShowCallback)},
		{"POST " + one + "/test", operators(), c.OfCallback(c.TestCallback)},
		{"POST " + one + "/rotate", operators(), c.OfCallback(c.RotateCallback)},
		{"POST " + one + "/enable", operators(), c.OfCallback(c.EnableCallback)},
		{"POST " + one + "/disable", operators(), c.OfCallback(c.DisableCallback)},
		{"POST " + one + "/delete", operators(), c.OfCallback(c.DeleteCallback)},
		{"GET /guards", both(), u.guards.ShowGuards},
		{"POST /guards/{id}/forget", operators(), u.guards.ForgetGuard},

		{"POST " + one + "/deliveries/{delivery}/resend", operators(), c.OfCallback(c.ResendDelivery)},
	}
}

// ruleRoutes are about rules and approval policies.
func (u *UI) ruleRoutes() []Route {
	return []Route{
		{"GET /rules", both(), u.rules.ShowRules},
		{"GET /rules/new", operators(), u.rules.NewRule},
		{"POST /rules/new", operators(), u.rules.CreateRule},
		{"POST /rules/check", operators(), u.rules.CheckRule},
		{"POST /rules/replay", operators(), u.rules.ReplayRule},
		{"GET /rules/named/{name}", both(), u.rules.ShowRule},
		{"GET /rules/named/{name}/edit", operators(), u.rules.EditRule},
		{"POST /rules/named/{name}/edit", operators(), u.rules.SaveRule},
		{"POST /rules/named/{name}/delete", operators(), u.rules.DeleteRule},
		{"GET /rules/{form...}", both(), rules.ToRules},

		{"GET /policies", both(), u.rules.ShowPolicies},
		{"GET /policies/new", operators(), u.rules.NewPolicy},
		{"POST /policies/new", operators(), u.rules.CreatePolicy},
		{"GET /policies/named/{name}", both(), u.rules.ShowPolicy},
		{"GET /policies/named/{name}/edit", operators(), u.rules.EditPolicy},
		{"POST /policies/named/{name}/edit", operators(), u.rules.SavePolicy},
		{"POST /policies/named/{name}/delete", operators(), u.rules.DeletePolicy},
		{"GET /policies/{form...}", both(), rules.ToPolicies},
	}
}

// grantRoutes are about grants and plans. Those who may decide a call, and operators, make them.
func (u *UI) grantRoutes() []Route {
	return []Route{
		{"GET /calls/{id}/grant", both(), u.grants.NewGrant},
		{"POST /calls/{id}/grant", both(), u.grants.CreateGrant},
		{"POST /calls/{id}/grant/preview", both(), u.grants.NewGrant},
		{"GET /grants", both(), u.grants.ShowGrants},
		{"GET /grants/suggestions", operators(), u.grants.ShowSuggestions},
		{"GET /grants/{id}", both(), u.grants.ShowGrant},
		{"POST /grants/{id}/revoke", both(), u.grants.RevokeGrant},
		{"POST /grants/{id}/confirm", both(), u.grants.ConfirmGrant},
		{"GET /plans", both(), u.review.Plans.ShowPlans},
		{"GET /plans/{id}", both(), u.review.Plans.ShowPlan},
		{"POST /plans/{id}/approve", reviewers(), u.review.Plans.ApprovePlan},
		{"POST /plans/{id}/reject", reviewers(), u.review.Plans.RejectPlan},
		{"POST /plans/{id}/revoke", both(), u.review.Plans.RevokePlan},
	}
}

// changeRoutes are about changes that wait for a second operator.
func (u *UI) changeRoutes() []Route {
	return []Route{
		{"GET /changes", operators(), u.changes.ShowChanges},
		{"GET /changes/{id}", operators(), u.changes.ShowChange},
		{"POST /changes/{id}/approve", operators(), u.changes.Approve},
		{"POST /changes/{id}/reject", operators(), u.changes.Reject},
	}
}

// connectionRoutes are about the person's own connections, and for operators about all connections.
func (u *UI) connectionRoutes() []Route {
	return []Route{
		{"GET /connections", both(), u.connections.ShowConnections},
		{"GET /connections/{id}", both(), u.connections.ShowConnection},
		{"POST /connections/{id}/disconnect", both(), u.connections.Disconnect},
		{"GET " + oauthclient.CallbackPath, both(), u.connections.Callback},
	}
}

func (u *UI) memberRoutes() []Route {
	members := u.admin.Members
	return []Route{
		{"GET /members", operators(), members.ShowMembers},
		{"POST /members", operators(), u.admin.Invitations.Invite},
		{"POST /members/revoke-invitation", operators(), u.admin.Invitations.RevokeInvitation},
		{"GET /members/{id}", operators(), members.ShowMember},
		{"POST /members/{id}/grant", operators(), members.GrantMember},
		{"POST /members/{id}/block", operators(), members.BlockMember},
		{"POST /members/{id}/unblock", operators(), members.UnblockMember},
		{"POST /members/{id}/end-session", operators(), members.EndMemberSession},
		{"POST /members/{id}/sign-out", operators(), members.EndMemberSessions},
		{"POST /members/{id}/tokens", operators(), members.MakeMemberToken},
		{"POST /members/{id}/revoke-token", operators(), members.RevokeMemberToken},
		{"POST /members/{id}/link", operators(), members.LinkMember},
		{"POST /members/{id}/unlink", operators(), members.UnlinkMember},
	}
}

// settingsRoutes are about the person's own settings, and for operators about webhooks and legal holds.
func (u *UI) settingsRoutes() []Route {
	settings, push, webhooks, holds := u.admin.Settings, u.admin.Push, u.admin.Webhooks, u.admin.Holds
	return []Route{
		{"GET /settings", both(), settings.ShowSettings},
		{"POST /settings/theme", both(), settings.SetTheme},
		{"POST /settings/queue", both(), u.queue.SetChoices},
		{"POST /settings/language", both(), settings.SetLanguage},
		{"POST /settings/end-session", both(), settings.EndOwnSession}, // their own
		{"POST /settings/tokens", both(), settings.MakeOwnToken},
		{"POST /settings/revoke-token", both(), settings.RevokeOwnToken}, // their own
		{"POST /settings/sign-out", both(), u.login.SignOutEverywhere},

		{"POST /settings/push", reviewers(), push.Subscribe},
		{"POST /settings/push/end", both(), push.Unsubscribe},
		{"POST /settings/push/{id}/remove", both(), push.RemoveSubscription},
		{"GET /settings/push/{form...}", both(), admin.ToSettings},

		{"GET /settings/webhooks", operators(), webhooks.ShowWebhooks},
		{"POST /settings/webhooks", operators(), webhooks.CreateWebhook},
		{"POST /settings/webhooks/{name}/test", operators(), webhooks.TestWebhook},
		{"POST /settings/webhooks/{name}/delete", operators(), webhooks.DeleteWebhook},
		{"GET /settings/webhooks/{form...}", operators(), admin.ToWebhooks},

		{"GET /settings/holds", operators(), holds.ShowHolds},
		{"POST /settings/holds", operators(), holds.SetHold},
		{"POST /settings/holds/{id}/lift", operators(), holds.LiftHold},
		{"GET /settings/holds/{form...}", operators(), admin.ToHolds},
	}
}

// teamRoutes are about who is asked. People change their own absences and delegations, operators all.
func (u *UI) teamRoutes() []Route {
	return []Route{
		{"GET /teams", both(), u.teams.ShowTeams},
		{"POST /teams/absences", both(), u.teams.AddAbsence},
		{"POST /teams/absences/{id}/end", both(), u.teams.EndAbsence},
		{"POST /teams/delegations", both(), u.teams.Delegate},
		{"POST /teams/delegations/{id}/end", both(), u.teams.EndDelegation},
		{"POST /teams/schedules", operators(), u.teams.SetSchedule},
		{"POST /teams/schedules/{name}/fetch", operators(), u.teams.FetchSchedule},
		{"POST /teams/schedules/{name}/delete", operators(), u.teams.DeleteSchedule},
		{"GET /teams/{form...}", both(), teams.ToTeams},
	}
}

// Mount adds all routes of the dashboard to mux.
func (u *UI) Mount(mux *http.ServeMux) {
	pages := http.NewServeMux()
	u.login.Mount(pages)
	parts := map[string]bool{login.SignInPath: true, login.SignOutPath: true, identity.InvitationPath: true}
	forms := map[string]bool{}
	for _, r := range u.Routes() {
		if slices.Contains(listProofPatterns(), r.Pattern) {
			r.do = u.askForProof(r.do)
		}
		pages.Handle(r.Pattern, u.login.Required(u.checkRole(r.Rule, r.do)))
		method, path, _ := strings.Cut(r.Pattern, " ")
		first := cutPath(path)
		parts[first] = true
		if method == http.MethodPost && strings.HasPrefix(path, first+"/{id}/") {
			forms[first] = true
		}
	}
	for first := range forms {
		// A sign-in may lead back to a form's address, so GET leads to the page that has the form.
		pages.Handle("GET "+first+"/{id}/{form...}", http.HandlerFunc(redirectToParent))
	}
	protected := u.addHeaders(u.protection.Handler(u.servePages(pages)))
	mux.Handle("/", u.addHeaders(http.HandlerFunc(u.showNotFound)))
	for part := range parts {
		mux.Handle(part, protected)
		if part != "/{$}" {
			mux.Handle(part+"/", protected)
		}
	}
	u.mountFiles(mux)
}

// cutPath returns the first segment of a path. The dashboard owns everything below it.
func cutPath(path string) string {
	if path == "/{$}" {
		return path
	}
	part, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return "/" + part
}

var errForbidden = errors.New("the role does not allow this")

// checkRole calls next for people with a role of the rule.
func (u *UI) checkRole(rule rule, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access, ok := login.Access(r.Context())
		if !ok || !slices.ContainsFunc(rule, access.Has) {
			u.Fail(w, r, errForbidden)
			return
		}
		if r.Method == http.MethodPost {
			if err := parseForm(r); err != nil {
				u.Fail(w, r, &formError{err})
				return
			}
		}
		next(w, r)
	})
}

// parseForm reads a form, also if it is multipart.
func parseForm(r *http.Request) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == "multipart/form-data" {
		return r.ParseMultipartForm(maxDocumentForm) // keeps it off the disk
	}
	return r.ParseForm()
}

// formError is an error of reading a form. The readable part is ignored, because it may mean something else than the whole.
type formError struct{ error }

func (e *formError) Unwrap() error { return e.error }

// explainFormError explains forms that cannot be read.
func explainFormError(_ *http.Request, err error) (status int, n view.Notice, ok bool) {
	if _, ok := errors.AsType[*formError](err); !ok {
		return 0, n, false
	}
	n = view.Notice{
		Level: view.Danger, Title: text.PageFormUnreadable(), Text: text.PageFormUnreadableHelp(),
	}
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		n.Title, n.Text = text.PageFormTooLarge(), text.PageFormTooLargeHelp(int(tooLong.Limit>>10))
		return http.StatusRequestEntityTooLarge, n, true
	}
	return http.StatusBadRequest, n, true
}

// redirectToParent leads from a form's address to its page.
func redirectToParent(w http.ResponseWriter, r *http.Request) {
	part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	shell.Redirect(w, r, "/"+part+"/"+url.PathEscape(r.PathValue("id")))
}

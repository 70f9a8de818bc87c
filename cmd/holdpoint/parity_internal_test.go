package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/ui"
)

// twin names the API operation and the command that do the same as a form of the dashboard.
type twin struct {
	operation, command string
	only               string // why there is none
}

// twins of all that people can send from the dashboard. A form that is missing here fails the test, so that none is
// added without a thought about those who work by script.
var twins = map[string]twin{
	"POST /calls/{id}/approve":      {operation: "approve", command: "approvals approve"},
	"POST /calls/{id}/confirm":      {operation: "approve", command: "approvals approve"},
	"POST /calls/{id}/edit":         {operation: "approve", command: "approvals approve"},
	"POST /calls/{id}/like":         {operation: "approve", command: "approvals approve"},
	"POST /calls/{id}/break-glass":  {operation: "approve", command: "approvals approve"},
	"POST /calls/{id}/review-glass": {operation: "reviewBreakGlass", command: "approvals review"},
	"POST /calls/{id}/reject":       {operation: "reject", command: "approvals reject"},
	"POST /calls/{id}/undo":         {operation: "withdrawVote", command: "approvals withdraw"},
	"POST /calls/{id}/extend":       {operation: "extend", command: "approvals extend"},
	"POST /calls/{id}/claim":        {operation: "claimApproval", command: "approvals claim"},
	"POST /calls/{id}/release":      {operation: "releaseApproval", command: "approvals release"},
	"POST /calls/{id}/assign":       {operation: "assignApproval", command: "approvals assign"},
	"POST /calls/{id}/comments":     {operation: "commentOnApproval", command: "approvals comment"},

	"POST /calls/{id}/questions/{number}/approve": {operation: "approveQuestion", command: "approvals approve"},
	"POST /calls/{id}/questions/{number}/reject":  {operation: "rejectQuestion", command: "approvals reject"},

	"POST /calls/{id}/reveal":                    {only: "the API hides no arguments"},
	"POST /calls/{id}/questions/{number}/reveal": {only: "the API hides no answers"},
	"POST /calls/{id}/seen":                      {only: "who has a page on the screen"},
	"POST /calls/{id}/resolve":                   {operation: "resolveCall", command: "calls resolve"},
	"POST /calls/{id}/cancel":                    {operation: "cancelCall", command: "calls cancel"},

	"POST /conversations/new":           {operation: "createConversation", command: "chat"},
	"POST /conversations/{id}/messages": {operation: "say", command: "chat"},
	"POST /conversations/{id}/stop":     {operation: "cancelConversation", command: "conversations cancel"},
	"POST /conversations/{id}/close":    {operation: "closeConversation", command: "conversations close"},
	"POST /conversations/{id}/fork":     {operation: "forkConversation", command: "conversations fork"},

	"POST /imports/new":              {operation: "examineDocument", command: "skill import"},
	"POST /imports/{id}":             {operation: "examineDocument", command: "skill import"},
	"POST /imports/{id}/credentials": {operation: "createSkill", command: "skill create"},
	"POST /imports/{id}/try":         {operation: "tryDraft", command: "skill try"},
	"POST /imports/{id}/save":        {operation: "createSkill", command: "skill create"},
	"POST /imports/{id}/drop":        {only: "what was said on pages, and not saved"},

	"POST /skills/new":          {operation: "createSkill", command: "skill create"},
	"POST /skills/{id}/edit":    {operation: "updateSkill", command: "skill edit"},
	"POST /skills/{id}/delete":  {operation: "deleteSkill", command: "skill delete"},
	"POST /skills/{id}/ask":     {operation: "listSkillTools", command: "skill tools"},
	"POST /skills/{id}/probe":   {operation: "probeSkill", command: "skill probe"},
	"POST /skills/{id}/tools":   {operation: "updateTool", command: "skill set"},
	"POST /skills/{id}/accept":  {operation: "acceptTool", command: "skill accept"},
	"POST /skills/{id}/refuse":  {operation: "refuseTool", command: "skill refuse"},
	"POST /skills/{id}/connect": {operation: "connectSkill", command: "connections connect"},

	"POST /agents/new":                    {operation: "createAgent", command: "agent create"},
	"POST /agents/{id}/edit":              {operation: "updateAgent", command: "agent edit"},
	"POST /agents/{id}/delete":            {operation: "deleteAgent", command: "agent delete"},
	"POST /agents/{id}/assign":            {operation: "assign", command: "agent assign"},
	"POST /agents/{id}/unassign":          {operation: "unassign", command: "agent unassign"},
	"POST /agents/{id}/keys":              {operation: "createKey", command: "agent key create"},
	"POST /agents/{id}/keys/{key}/revoke": {operation: "revokeKey", command: "agent key revoke"},

	"POST /agents/{id}/callbacks":                                         {operation: "createCallback", command: "agent callback create"},
	"POST /agents/{id}/callbacks/{callback}/test":                         {operation: "testCallback", command: "agent callback test"},
	"POST /agents/{id}/callbacks/{callback}/rotate":                       {operation: "rotateCallbackSecret", command: "agent callback rotate-secret"},
	"POST /agents/{id}/callbacks/{callback}/enable":                       {operation: "enableCallback", command: "agent callback enable"},
	"POST /agents/{id}/callbacks/{callback}/disable":                      {operation: "disableCallback", command: "agent callback disable"},
	"POST /agents/{id}/callbacks/{callback}/delete":                       {operation: "deleteCallback", command: "agent callback delete"},
	"POST /agents/{id}/callbacks/{callback}/deliveries/{delivery}/resend": {operation: "resendDelivery", command: "agent callback resend"},

	"POST /calls/{id}/grant":         {operation: "createGrant", command: "grants create"},
	"POST /calls/{id}/grant/preview": {operation: "previewGrant", command: "grants preview"},
	"POST /grants/{id}/revoke":       {operation: "revokeGrant", command: "grants revoke"},
	"POST /grants/{id}/confirm":      {operation: "confirmGrant", command: "grants confirm"},
	"POST /plans/{id}/approve":       {operation: "approvePlan", command: "plans approve"},
	"POST /plans/{id}/reject":        {operation: "rejectPlan", command: "plans reject"},
	"POST /plans/{id}/revoke":        {operation: "revokePlan", command: "plans revoke"},

	"POST /rules/new":                 {operation: "setRule", command: "rules set"},
	"POST /rules/check":               {operation: "checkRule", command: "rules check"},
	"POST /rules/replay":              {operation: "replayRule", command: "rules replay"},
	"POST /rules/named/{name}/edit":   {operation: "setRule", command: "rules set"},
	"POST /rules/named/{name}/delete": {operation: "deleteRule", command: "rules delete"},

	"POST /policies/new":                 {operation: "setPolicy", command: "policies set"},
	"POST /policies/named/{name}/edit":   {operation: "setPolicy", command: "policies set"},
	"POST /policies/named/{name}/delete": {operation: "deletePolicy", command: "policies delete"},
	"POST /changes/{id}/approve":         {operation: "approveChange", command: "changes approve"},
	"POST /changes/{id}/reject":          {operation: "rejectChange", command: "changes reject"},

	"POST /connections/{id}/disconnect": {operation: "disconnect", command: "connections disconnect"},

	"POST /members":                   {operation: "createInvitation", command: "invitation create"},
	"POST /members/revoke-invitation": {operation: "revokeInvitation", command: "invitation revoke"},
	"POST /members/{id}/grant":        {operation: "updatePerson", command: "people grant"},
	"POST /members/{id}/block":        {operation: "updatePerson", command: "people block"},
	"POST /members/{id}/unblock":      {operation: "updatePerson", command: "people unblock"},
	"POST /members/{id}/end-session":  {operation: "endSession", command: "people end-session"},
	"POST /members/{id}/sign-out":     {operation: "signOutPerson", command: "people sign-out"},
	"POST /members/{id}/tokens":       {operation: "createToken", command: "token create"},
	"POST /members/{id}/revoke-token": {operation: "revokeToken", command: "token revoke"},
	"POST /members/{id}/link":         {operation: "linkPerson", command: "people link"},
	"POST /members/{id}/unlink":       {operation: "unlinkPerson", command: "people unlink"},

	"POST /settings/theme":                  {only: "the look of one browser"},
	"POST /settings/language":               {only: "the language of one browser"},
	"POST /settings/queue":                  {only: "the dashboard's queue of one person"},
	"POST /queue/views":                     {only: "the dashboard's queue of one person"},
	"POST /queue/views/delete":              {only: "the dashboard's queue of one person"},
	"POST /settings/tokens":                 {operation: "createToken", command: "token create"},
	"POST /settings/revoke-token":           {operation: "revokeToken", command: "token revoke"},
	"POST /settings/end-session":            {operation: "endSession", command: "people end-session"},
	"POST /settings/sign-out":               {operation: "signOutPerson", command: "people sign-out"},
	"POST /settings/push":                   {only: "the notifications of one browser"},
	"POST /settings/push/end":               {only: "the notifications of one browser"},
	"POST /settings/push/{id}/remove":       {only: "the notifications of one browser"},
	"POST /settings/webhooks":               {operation: "createWebhook", command: "webhooks create"},
	"POST /settings/webhooks/{name}/test":   {operation: "testWebhook", command: "webhooks test"},
	"POST /settings/webhooks/{name}/delete": {operation: "deleteWebhook", command: "webhooks delete"},
	"POST /teams/absences":                  {operation: "createAbsence", command: "away set"},
	"POST /teams/absences/{id}/end":         {operation: "endAbsence", command: "away end"},
	"POST /teams/delegations":               {operation: "createDelegation", command: "teams delegate"},
	"POST /teams/delegations/{id}/end":      {operation: "endDelegation", command: "teams end-delegation"},
	"POST /teams/schedules":                 {operation: "setSchedule", command: "teams schedule"},
	"POST /teams/schedules/{name}/fetch":    {operation: "fetchSchedule", command: "teams fetch-schedule"},
	"POST /teams/schedules/{name}/delete":   {operation: "deleteSchedule", command: "teams delete-schedule"},

	"POST /guards/{id}/forget":       {operation: "forgetGuard", command: "guard forget"},
	"POST /settings/holds":           {operation: "setHold", command: "holds set"},
	"POST /settings/holds/{id}/lift": {operation: "liftHold", command: "holds lift"},
}

// People can do everything in the dashboard, over the API and on the command line.
func TestFormsHaveTwins(t *testing.T) {
	t.Parallel()
	operations := operationsOfDocument(t)
	sent := map[string]bool{}
	for _, route := range ui.ListRoutes() {
		if !strings.HasPrefix(route.Pattern, "POST ") {
			continue
		}
		sent[route.Pattern] = true
		twin, ok := twins[route.Pattern]
		switch {
		case !ok:
			t.Errorf("%s: the table does not say what does this over the API", route.Pattern)
		case twin.only != "":
		case !operations[twin.operation]:
			t.Errorf("%s: the API has no operation %q", route.Pattern, twin.operation)
		case !hasCommand(t, twin.command):
			t.Errorf("%s: there is no command %q", route.Pattern, twin.command)
		}
	}
	for pattern := range twins {
		if !sent[pattern] {
			t.Errorf("%s is in the table, and no form", pattern)
		}
	}
}

func operationsOfDocument(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, methods := range document.Paths {
		for _, operation := range methods {
			known[operation.OperationID] = true
		}
	}
	return known
}

func hasCommand(t *testing.T, command string) bool {
	t.Helper()
	var stdout, stderr bytes.Buffer
	e := &cli.Env{
		Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: time.Now, Version: "test",
	}
	code := cli.Run(t.Context(), e, append(strings.Fields(command), "--help"))
	return code == cli.ExitOK && strings.Contains(stdout.String(), "Usage:\n  holdpoint "+command)
}

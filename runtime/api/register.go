package api

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// registerAll joins the table of routes with what the operations do. A row
// that nothing is registered for is an error.
func (a *API) registerAll() error {
	registered := map[string]bool{}
	for _, join := range slices.Concat(a.workOperations(), a.talkOperations(), a.fileOperations(), a.registryOperations(), a.peopleOperations()) {
		id, err := join()
		if err != nil {
			return err
		}
		registered[id] = true
	}
	for id := range a.byID {
		if !registered[id] {
			return fmt.Errorf("route %s leads nowhere", id)
		}
	}
	return nil
}

// join adds one operation to the API.
type join func() (id string, err error)

// workOperations are about what agents do and reviewers decide.
func (a *API) workOperations() []join {
	return []join{
		on(a, "listCalls", a.listCalls),
		on(a, "exportCalls", a.exportCalls),
		on(a, "getCall", a.getCall),
		on(a, "cancelCall", a.cancelCall),
		on(a, "resolveCall", a.resolveCall),
		on(a, "listApprovals", a.listApprovals),
		on(a, "getApproval", a.getApproval),
		on(a, "approve", a.approve),
		on(a, "previewCall", a.previewCall),
		on(a, "extend", a.extend),
		on(a, "reject", a.reject),
		on(a, "listQuestions", a.listQuestions),
		on(a, "approveQuestion", a.approveQuestion),
		on(a, "rejectQuestion", a.rejectQuestion),
		on(a, "getInsights", a.getInsights),
		on(a, "getToolInsights", a.getToolInsights),
		on(a, "listAudit", a.listAudit),
		on(a, "exportAudit", a.exportAudit),
		on(a, "getServer", a.getServer),
	}
}

// talkOperations are about conversations.
func (a *API) talkOperations() []join {
	return []join{
		on(a, "listConversations", a.listConversations),
		on(a, "getConversation", a.getConversation),
		on(a, "getLatestConversation", a.latestConversation),
		on(a, "createConversation", a.createConversation),
		on(a, "listMessages", a.listMessages),
		on(a, "say", a.say),
		on(a, "followConversation", a.followConversation),
		on(a, "cancelConversation", a.cancelConversation),
		on(a, "closeConversation", a.closeConversation),
		on(a, "forkConversation", a.forkConversation),
	}
}

// fileOperations are about what agents attach to calls.
func (a *API) fileOperations() []join {
	return []join{
		on(a, "presignUpload", a.presignUpload),
		on(a, "getFile", a.getFile),
		on(a, "deleteFile", a.deleteFile),
		on(a, "downloadFile", a.downloadFile),
	}
}

// registryOperations are about what operators declare.
func (a *API) registryOperations() []join {
	return []join{
		on(a, "apply", a.apply),
		on(a, "listAgents", a.listAgents),
		on(a, "createAgent", a.createAgent),
		on(a, "getAgent", a.getAgent),
		on(a, "updateAgent", a.updateAgent),
		on(a, "previewAgent", a.previewAgent),
		on(a, "deleteAgent", a.deleteAgent),
		on(a, "listKeys", a.listKeys),
		on(a, "createKey", a.createKey),
		on(a, "revokeKey", a.revokeKey),
		on(a, "listSkills", a.listSkills),
		on(a, "createSkill", a.createSkill),
		on(a, "getSkill", a.getSkill),
		on(a, "updateSkill", a.updateSkill),
		on(a, "getDocument", a.getDocument),
		on(a, "deleteSkill", a.deleteSkill),
		on(a, "probeSkill", a.probeSkill),
		on(a, "examineDocument", a.examineDocument),
		on(a, "trySkill", a.trySkill),
		on(a, "tryDraft", a.tryDraft),
		on(a, "listSkillTools", a.listSkillTools),
		on(a, "skillHealth", a.skillHealth),
		on(a, "updateTool", a.updateTool),
		on(a, "acceptTool", a.acceptTool),
		on(a, "refuseTool", a.refuseTool),
	}
}

// peopleOperations are about connections, people, and what connects agents with skills.
func (a *API) peopleOperations() []join {
	return []join{
		on(a, "connectSkill", a.connectSkill),
		on(a, "listConnections", a.listConnections),
		on(a, "getConnection", a.getConnection),
		on(a, "disconnect", a.disconnect),
		on(a, "listWebhooks", a.listWebhooks),
		on(a, "createWebhook", a.createWebhook),
		on(a, "deleteWebhook", a.deleteWebhook),
		on(a, "testWebhook", a.testWebhook),
		on(a, "listCallbacks", a.listCallbacks),
		on(a, "createCallback", a.createCallback),
		on(a, "deleteCallback", a.deleteCallback),
		on(a, "rotateCallbackSecret", a.rotateCallback),
		on(a, "enableCallback", a.enableCallback),
		on(a, "disableCallback", a.disableCallback),
		on(a, "testCallback", a.testCallback),
		on(a, "listDeliveries", a.listDeliveries),
		on(a, "resendDelivery", a.resendDelivery),
		on(a, "listPeople", a.listPeople),
		on(a, "getPerson", a.getPerson),
		on(a, "updatePerson", a.updatePerson),
		on(a, "listSessions", a.listSessions),
		on(a, "endSession", a.endSession),
		on(a, "signOutPerson", a.signOutPerson),
		on(a, "linkPerson", a.linkPerson),
		on(a, "unlinkPerson", a.unlinkPerson),
		on(a, "listAssignments", a.listAssignments),
		on(a, "assign", a.assign),
		on(a, "unassign", a.unassign),
		on(a, "listTokens", a.listTokens),
		on(a, "createToken", a.createToken),
		on(a, "revokeToken", a.revokeToken),
		on(a, "listInvitations", a.listInvitations),
		on(a, "createInvitation", a.createInvitation),
		on(a, "revokeInvitation", a.revokeInvitation),
		on(a, "redeemInvitation", a.redeemInvitation),
	}
}

// on returns what adds one operation to the API: its row in the table of routes, and
// what it does. An operation without a row is an error.
func on[I, O any](a *API, id string, handle func(context.Context, *I) (*O, error)) join {
	return func() (string, error) {
		r, ok := a.byID[id]
		if !ok {
			return id, fmt.Errorf("operation %s is not in the table of routes", id)
		}
		huma.Register(a.huma, a.operation(r), func(ctx context.Context, input *I) (*O, error) {
			output, err := handle(ctx, input)
			if err != nil {
				return nil, a.translate(ctx, id, err)
			}
			return output, nil
		})
		return id, nil
	}
}

// bodyPatience is how long a large body may take to come.
const bodyPatience = time.Minute

func (a *API) operation(r route) huma.Operation {
	problem := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	responses := map[string]*huma.Response{"default": {
		Description: "A problem (RFC 9457).",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
	}}
	if len(r.Streams) > 0 {
		content := map[string]*huma.MediaType{}
		for _, mediaType := range r.Streams {
			content[mediaType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		}
		responses["200"] = &huma.Response{Description: r.streamWords(), Content: content}
	}
	var patience time.Duration // zero: 5 s
	if r.MaxBody > 16<<20 {
		patience = bodyPatience
	}
	return huma.Operation{
		BodyReadTimeout: patience,
		OperationID:     r.ID, Method: r.Method, Path: r.Path, Tags: []string{r.Tag},
		Summary: r.Summary, Description: r.Rule.String(),
		DefaultStatus: r.Status, MaxBodyBytes: r.MaxBody, SkipValidateBody: r.OwnChecks,
		Responses: responses,
	}
}

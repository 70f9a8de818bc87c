package runtime

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/mcpserver"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// dropChannel carries clients' notifications/cancelled to the process that
// holds the response open.
const dropChannel = "holdpoint_drop"

type dropNotice struct {
	Conversation uuid.UUID `json:"conversation"`
	Request      string    `json:"request"`
}

// maxNotice is what PostgreSQL takes as the payload of one NOTIFY.
const maxNotice = 8000

func (rt *Runtime) broadcastDrop(ctx context.Context, conversation uuid.UUID, request string) {
	payload, err := json.Marshal(dropNotice{conversation, request})
	if err != nil || len(payload) >= maxNotice {
		return // no client of ours has such a request id
	}
	if _, err := rt.DB.Pool().Exec(ctx, `SELECT pg_notify($1, $2)`, dropChannel, string(payload)); err != nil {
		rt.Logger.Warn("relaying a cancelled request", "conversation", conversation, "error", err)
	}
}

func channels() []string {
	return []string{call.Channel, call.EventChannel, callback.Channel, oauthclient.Channel, registry.Channel, dropChannel, resource.Channel, converse.Channel}
}

// notified hands a notification to the package it is for.
func (rt *Runtime) notified(channel, payload string) {
	switch channel {
	case call.Channel:
		rt.Calls.HandleNotification(payload)
	case callback.Channel:
		rt.Callbacks.HandleNotification()
	case converse.Channel:
		rt.Converse.HandleNotification(payload)
	case call.EventChannel:
		rt.Calls.HandleEvent(payload)
	case oauthclient.Channel:
		rt.connectionChanged(payload)
	case registry.Channel:
		rt.forget()
	case resource.Channel:
		rt.Resources.HandleNotification(payload)
	case dropChannel:
		var notice dropNotice
		if err := json.Unmarshal([]byte(payload), &notice); err != nil {
			rt.Logger.Warn("notification cannot be read", "channel", channel, "error", err)
			return
		}
		rt.mcp.Drop(notice.Conversation, notice.Request)
	}
}

// caughtUp makes good for notifications that were missed.
func (rt *Runtime) caughtUp() {
	rt.forget()
	rt.OAuth.Invalidate()
	rt.Calls.CatchUp()
	rt.Callbacks.HandleNotification()
	rt.Converse.CatchUp()
	rt.Resources.CatchUp()
}

// connectionChanged forgets what was known of a skill under another connection.
func (rt *Runtime) connectionChanged(skill string) {
	rt.OAuth.Invalidate()
	id, err := uuid.Parse(skill)
	if err != nil {
		rt.Logger.Warn("notification is not a skill's id", "channel", oauthclient.Channel, "error", err)
		return
	}
	rt.Discovery.Reconnected(id)
}

// target finds a skill's server for package oauthclient, which does not know skills.
func (rt *Runtime) target(ctx context.Context, key oauthclient.Key) (oauthclient.Target, error) {
	_, server, err := rt.Agents.FreshSkill(ctx, key.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return oauthclient.Target{}, oauthclient.ErrNotFound
	}
	if err != nil {
		return oauthclient.Target{}, err
	}
	return skillauth.Target(server.For(key.Principal)), nil
}

// managed lists, for package oauthclient, the skills that this client of an identity provider manages for each person.
func (rt *Runtime) managed(ctx context.Context, issuer, clientID string) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for after, more := "", true; more; more = after != "" {
		skills, next, err := rt.Agents.Skills(ctx, after, skillPage)
		if err != nil {
			return nil, err
		}
		for i := range skills {
			o := skills[i].OAuth
			if skills[i].PerUser && o != nil && o.Grant == tool.EnterpriseManaged && o.IDPIssuer == issuer && o.IDPClientID == clientID {
				ids = append(ids, skills[i].ID)
			}
		}
		after = next
	}
	return ids, nil
}

const skillPage = 200

// reconnected makes a skill's tools be listed anew for the agents that have it.
func (rt *Runtime) reconnected(ctx context.Context, skillID uuid.UUID) error {
	rt.connectionChanged(skillID.String())
	return rt.Agents.Reconnected(ctx, skillID)
}

func (rt *Runtime) forget() {
	rt.Identity.Invalidate()
	rt.Notify.Invalidate()
	rt.Callbacks.Invalidate()
	rt.Discovery.Invalidate()
	rt.Agents.Invalidate()
	rt.mcp.CatalogMayHaveChanged()
	rt.Resources.OffersMayHaveChanged()
}

// publish tells of what becomes of calls whoever wants to know.
func (rt *Runtime) publish(batch *pgx.Batch, condition string, list []call.Happening) error {
	if err := rt.Callbacks.Publish(batch, condition, list); err != nil {
		return err
	}
	return rt.Converse.Publish(batch, condition, list)
}

// ask hands a question of an agent's client to the agent itself.
func (rt *Runtime) ask(ctx context.Context, q mcpserver.Question) (call.Ticket, error) {
	ticket, err := rt.Converse.Ask(ctx, converse.Question(q))
	invalid := (*converse.InvalidError)(nil)
	switch {
	case errors.Is(err, converse.ErrDepth):
		err = mcpserver.ErrDepth
	case errors.Is(err, converse.ErrNoModel):
		err = mcpserver.ErrNoModel
	case errors.As(err, &invalid):
		err = &mcpserver.RefusedError{Field: invalid.Field, Expected: invalid.Expected}
	}
	return ticket, err
}

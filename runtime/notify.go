package runtime

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
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

// dropChannel carries notifications/cancelled to the process that holds the response open.
const dropChannel postgres.Channel = "holdpoint_drop"

type dropNotice struct {
	Conversation uuid.UUID `json:"conversation"`
	Request      string    `json:"request"`
}

// maxNotice is PostgreSQL's limit of a notification's payload, in bytes.
const maxNotice = 8000

func (rt *Runtime) broadcastDrop(ctx context.Context, conversation uuid.UUID, request string) {
	payload, err := json.Marshal(dropNotice{conversation, request})
	if err != nil || len(payload) >= maxNotice {
		return // no real client has such a request id
	}
	if _, err := rt.DB.Pool().Exec(ctx, `SELECT pg_notify($1, $2)`, dropChannel, string(payload)); err != nil {
		rt.Logger.Warn("relay cancelled request", "conversation", conversation, "error", err)
	}
}

func listChannels() []postgres.Channel {
	return []postgres.Channel{call.Channel, call.EventChannel, callback.Channel, oauthclient.Channel, registry.Channel, dropChannel, resource.Channel, converse.Channel}
}

// dispatchNotification passes a notification to its package.
func (rt *Runtime) dispatchNotification(channel postgres.Channel, payload string) {
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
		rt.resetConnection(payload)
	case registry.Channel:
		rt.invalidateCaches()
	case resource.Channel:
		rt.Resources.HandleNotification(payload)
	case dropChannel:
		var notice dropNotice
		if err := json.Unmarshal([]byte(payload), &notice); err != nil {
			rt.Logger.Warn("unreadable notification", "channel", channel, "error", err)
			return
		}
		rt.mcp.Drop(notice.Conversation, notice.Request)
	default:
		rt.listener.handleNotification(channel, payload)
	}
}

// catchUp finds changes that were missed while the listening connection was down.
func (rt *Runtime) catchUp() {
	rt.invalidateCaches()
	rt.OAuth.Invalidate()
	rt.Calls.CatchUp()
	rt.Callbacks.HandleNotification()
	rt.Converse.CatchUp()
	rt.Resources.CatchUp()
}

// resetConnection drops cached values of a skill's former connection.
func (rt *Runtime) resetConnection(skill string) {
	rt.OAuth.Invalidate()
	id, err := uuid.Parse(skill)
	if err != nil {
		rt.Logger.Warn("notification is not a skill's id", "channel", oauthclient.Channel, "error", err)
		return
	}
	rt.Discovery.ListChanged(id)
}

// findTarget returns a skill's server to package oauthclient.
func (rt *Runtime) findTarget(ctx context.Context, key oauthclient.Key) (oauthclient.Target, error) {
	_, server, err := rt.Agents.FreshSkill(ctx, key.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return oauthclient.Target{}, oauthclient.ErrNotFound
	}
	if err != nil {
		return oauthclient.Target{}, err
	}
	return skillauth.Target(server.For(key.Principal)), nil
}

// listManagedSkills lists, for package oauthclient, the skills that this client of an identity provider manages for each
// person.
func (rt *Runtime) listManagedSkills(ctx context.Context, issuer, clientID string) ([]uuid.UUID, error) {
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

// relistSkill lists a skill's tools again for its agents.
func (rt *Runtime) relistSkill(ctx context.Context, skillID uuid.UUID) error {
	rt.resetConnection(skillID.String())
	return rt.Agents.Reconnected(ctx, skillID)
}

func (rt *Runtime) invalidateCaches() {
	rt.Identity.Invalidate()
	rt.Notify.Invalidate()
	rt.Callbacks.Invalidate()
	rt.Discovery.Invalidate()
	rt.Agents.Invalidate()
	rt.mcp.CatalogMayHaveChanged()
	rt.Resources.OffersMayHaveChanged()
}

// publishHappenings passes changes of calls to callbacks and conversations.
func (rt *Runtime) publishHappenings(batch *pgx.Batch, condition string, list []call.Happening) error {
	if err := rt.Callbacks.Publish(batch, condition, list); err != nil {
		return err
	}
	return rt.Converse.Publish(batch, condition, list)
}

// askAgent passes a question of an agent's client to the agent.
func (rt *Runtime) askAgent(ctx context.Context, q mcpserver.Question) (call.Ticket, error) {
	ticket, err := rt.Converse.Ask(ctx, converse.Question(q))
	switch {
	case errors.Is(err, converse.ErrDepth):
		err = mcpserver.ErrDepth
	case errors.Is(err, converse.ErrNoModel):
		err = mcpserver.ErrNoModel
	}
	return ticket, err
}

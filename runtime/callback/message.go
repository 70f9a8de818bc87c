package callback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// TypeTest is the type of a message that an operator sent to see whether it arrives.
const TypeTest = "callback.test"

// Payload is what is sent: what became of a call, and nothing of what is in it.
type Payload struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // when it happened
	Data      Data      `json:"data"`
}

// Data of a payload. A test has the agent only.
type Data struct {
	CallID         *uuid.UUID `json:"call_id,omitempty"`
	Agent          string     `json:"agent"`
	Status         string     `json:"status,omitempty"`
	Code           string     `json:"code,omitempty"`
	Tool           string     `json:"tool,omitempty"`
	ConversationID *uuid.UUID `json:"conversation_id,omitempty"`
}

// message is one that is to be sent.
type message struct {
	id       uuid.UUID
	callback uuid.UUID
	agent    string
	name     string
	host     string
	sealed   []byte // the URL
	disabled bool
	state    string
	round    int
	wait     time.Duration // the receiver asked for it
	payload  Payload
}

// message reads one. ErrNotFound.
func (s *Service) message(ctx context.Context, id uuid.UUID) (*message, error) {
	m := &message{id: id}
	var agentID uuid.UUID
	var seconds float64
	p := &m.payload
	err := s.Pool.QueryRow(ctx, `SELECT k.id, k.agent_id, k.name, k.hint, k.sealed, k.disabled_at IS NOT NULL, d.state, d.round,
			coalesce(extract(epoch FROM d.not_before - holdpoint_now()), 0)::float8,
			d.type, d.at, d.call_id, coalesce(d.status, ''), coalesce(d.code, ''), coalesce(d.tool, ''), d.conversation_id
		FROM callback_deliveries d JOIN callbacks k ON k.id = d.callback_id WHERE d.id = $1`, id).
		Scan(&m.callback, &agentID, &m.name, &m.host, &m.sealed, &m.disabled, &m.state, &m.round, &seconds,
			&p.Type, &p.Timestamp, &p.Data.CallID, &p.Data.Status, &p.Data.Code, &p.Data.Tool, &p.Data.ConversationID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("callback message %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read callback message %s: %w", id, err)
	}
	m.wait = time.Duration(seconds * float64(time.Second))
	names, err := agent.Names(ctx, s.Pool, []uuid.UUID{agentID})
	if err != nil {
		return nil, err
	}
	m.agent = names[agentID]
	p.Data.Agent, p.Timestamp = m.agent, p.Timestamp.UTC()
	return m, nil
}

// send signs a message and posts it. Each attempt is signed anew, with the time that it is made at.
func (s *Service) send(ctx context.Context, m *message) receiver.Answer {
	broken := func(what string, err error) receiver.Answer {
		s.Logger.Error("a callback cannot be sent", "callback", m.callback, "message", m.id, "error", err)
		return receiver.Answer{Verdict: receiver.Later, Err: errors.New(what)}
	}
	address, err := s.Box.Open(m.sealed, secret.For(callbackPurpose, m.callback))
	if err != nil {
		return broken("its URL cannot be decrypted with this server's key", err)
	}
	signers, err := s.signers(ctx, m.callback)
	if err != nil {
		return broken("its secrets cannot be read", err)
	}
	body, err := json.Marshal(m.payload)
	if err != nil {
		return broken("it cannot be encoded", err)
	}
	now := s.Now()
	signatures := make([]string, len(signers))
	for i, signer := range signers {
		if signatures[i], err = signer.Sign(m.id.String(), now, body); err != nil {
			return broken("it cannot be signed", err)
		}
	}
	if len(signatures) == 0 {
		return broken("it cannot be signed", errors.New("the callback has no secret"))
	}
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookID, m.id.String())
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	answer := receiver.Post(ctx, s.client, string(address), header, body, now)
	if answer.Cause != nil && ctx.Err() == nil {
		s.Logger.Warn("a callback could not be delivered", "callback", m.callback, "message", m.id, "error", answer.Cause)
	}
	return answer
}

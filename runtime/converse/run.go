package converse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// ending says how a run of turns ended.
type ending struct {
	code   string // empty: with an answer
	notice string // in plain words, if there is a code
	answer string // empty: there is none
}

// finishRun ends a run of turns. A call of the tool ask gets the answer, or the reason why there is none. The next message in
// the inbox starts a new run.
func (s *Service) finishRun(ctx context.Context, tx pgx.Tx, l *loop, e ending) error {
	s.record.endRun(l, e.code)
	if e.code != "" {
		l.appendNotice(e.code, e.notice, uuid.Nil)
	}
	if l.asked != uuid.Nil {
		text := e.answer
		if e.code != "" {
			text = strings.TrimSpace(text + "\n\n" + e.notice)
		}
		l.answers = append(l.answers, answeredCall{l.asked, text, e.answer == ""})
		l.asked = uuid.Nil
	}
	l.Stopping, l.attempts = false, 0
	next, err := takeMessages(ctx, tx, `DELETE FROM loop_inbox WHERE id = (SELECT id FROM loop_inbox WHERE conversation_id = $1 ORDER BY id LIMIT 1)
		RETURNING id, data`, l.ID)
	if err != nil {
		return err
	}
	l.setStatus(Idle)
	if l.isSingleUse() && len(next) == 0 { // no other message can reach it
		l.Code = CodeClosed
		l.setStatus(Ended)
	}
	for i := range next {
		s.record.beginRun(l, next[i].Trace)
		next[i].Trace = nil
		l.appendEntry(Entry{Kind: KindUser, User: &next[i]})
		l.asked = next[i].Asked
		l.setStatus(Due)
	}
	return nil
}

// endLoop ends the conversation. Calls of the tool ask that still wait get the reason.
func (s *Service) endLoop(ctx context.Context, tx pgx.Tx, l *loop, code, text string, by uuid.UUID) error {
	l.appendNotice(code, text, by)
	if l.asked != uuid.Nil {
		l.answers = append(l.answers, answeredCall{l.asked, text, true})
		l.asked = uuid.Nil
	}
	waiting, err := takeMessages(ctx, tx, `DELETE FROM loop_inbox WHERE conversation_id = $1 RETURNING id, data`, l.ID)
	if err != nil {
		return err
	}
	for _, m := range waiting {
		if m.Asked != uuid.Nil {
			l.answers = append(l.answers, answeredCall{m.Asked, text, true})
		}
	}
	s.record.endRun(l, code)
	l.Code, l.Stopping = code, false
	l.setStatus(Ended)
	return nil
}

// endInCatalog ends the conversation in the catalog, too. An error is only logged, because the conversation does no more work.
func (s *Service) endInCatalog(ctx context.Context, l *loop) {
	if err := s.Catalog.EndConversation(ctx, l.AgentID, l.PrincipalID, l.ID); err != nil && !errors.Is(err, agent.ErrNotFound) {
		s.Logger.Warn("conversation not ended in the catalog", "conversation", l.ID, "error", err)
	}
}

// findExceededLimit returns the code and notice of the limit that the conversation has reached, or an empty code.
func (s *Service) findExceededLimit(ctx context.Context, tx pgx.Tx, l *loop, a *agent.Agent) (code, text string, err error) {
	limits := a.Limits
	turns := limits.Turns()
	over := func(what string) string {
		return "The conversation has reached its " + what + ", so it ended here. An operator can raise the agent's limit; a fork can continue this conversation."
	}
	switch tokens := l.InputTokens + l.OutputTokens; {
	case l.Turns >= turns:
		return CodeTurnLimit, over(fmt.Sprintf("turn limit (%d)", turns)), nil
	case limits.ConversationTokens > 0 && tokens >= limits.ConversationTokens:
		return CodeTokenLimit, over(fmt.Sprintf("token limit (%d)", limits.ConversationTokens)), nil
	case limits.ConversationCost > 0 && l.Cost >= limits.ConversationCost:
		return CodeCostLimit, over(fmt.Sprintf("cost limit (%.2f)", limits.ConversationCost)), nil
	case limits.ConversationTime == 0:
		return "", "", nil
	}
	var passed bool
	most := time.Duration(limits.ConversationTime)
	err = tx.QueryRow(ctx, `SELECT holdpoint_now() - $1::timestamptz >= $2 * interval '1 microsecond'`, l.CreatedAt, most.Microseconds()).Scan(&passed)
	if err != nil || !passed {
		return "", "", err
	}
	return CodeTimeLimit, over("time limit (" + agent.Duration(most).String() + ")"), nil
}

package ui_test

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// talker is a model whose answers a test sets.
type talker struct {
	mu     sync.Mutex
	answer func(ctx context.Context, r *model.Request, sink func(model.Delta)) (*model.Response, error)
}

// Generate implements [model.Provider].
func (m *talker) Generate(ctx context.Context, r *model.Request, sink func(model.Delta)) (*model.Response, error) {
	m.mu.Lock()
	answer := m.answer
	m.mu.Unlock()
	if answer == nil {
		return newReply("I heard: " + lastWords(r)), nil
	}
	return answer(ctx, r, sink)
}

func (m *talker) does(answer func(ctx context.Context, r *model.Request, sink func(model.Delta)) (*model.Response, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

// setReplies sets the next answers. After them, the model echoes its input.
func (m *talker) setReplies(list ...*model.Response) {
	m.does(func(_ context.Context, r *model.Request, _ func(model.Delta)) (*model.Response, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(list) == 0 {
			return newReply("I heard: " + lastWords(r)), nil
		}
		next := list[0]
		list = list[1:]
		return next, nil
	})
}

// lastWords returns the last text in a model's request.
func lastWords(r *model.Request) string {
	parts := r.Messages[len(r.Messages)-1].Parts
	last := parts[len(parts)-1]
	if last.Result != nil {
		last = last.Result.Parts[0]
	}
	return last.Text.Text
}

func newReply(text string) *model.Response {
	return &model.Response{
		Parts: []model.Part{model.TextPart(text)}, Stop: model.StopEnd, Model: "quill-2", Usage: model.Usage{InputTokens: 1200, OutputTokens: 80},
	}
}

// newToolCalls returns an answer with tool calls, as pairs of name and arguments.
func newToolCalls(text string, pairs ...string) *model.Response {
	r := newReply(text)
	if text == "" {
		r.Parts = nil
	}
	r.Stop = model.StopToolCalls
	for i := 0; i < len(pairs); i += 2 {
		r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{ID: "c" + uuid.NewString(), Name: pairs[i], Arguments: pairs[i+1]}})
	}
	return r
}

// withModel gives the agent of the world a model.
func (w *world) withModel() {
	w.t.Helper()
	spec := &agent.ModelSpec{Provider: agent.ProviderScripted, Name: "quill", InputPrice: 3, OutputPrice: 15}
	_, err := w.agents.UpdateAgent(w.t.Context(), audit.System(), w.agent.ID, agent.AgentPatch{Model: spec})
	check(w.t, err)
	w.agent, err = w.agents.AgentByID(w.t.Context(), w.agent.ID)
	check(w.t, err)
}

// talk starts a conversation of the world's agent.
func (w *world) talk(principal uuid.UUID, message string) uuid.UUID {
	w.t.Helper()
	c, err := w.talks.Begin(w.t.Context(), converse.Opening{Agent: w.agent, Principal: principal, Message: message})
	check(w.t, err)
	return c.ID
}

// waitForStatus waits until a conversation has the status, and returns it.
func (w *world) waitForStatus(id uuid.UUID, as converse.Status) converse.Conversation {
	w.t.Helper()
	ctx, done := context.WithCancel(w.t.Context())
	defer done()
	var found converse.Conversation
	err := w.talks.Follow(ctx, converse.Viewer{}, id, 0, func(e converse.Event) error {
		if e.Conversation != nil && e.Conversation.Status == as {
			found = *e.Conversation
			done()
		}
		return nil
	})
	if found.Status != as {
		w.t.Fatalf("the conversation does not come to be %s: %v", as, err)
	}
	return found
}

// callsOf returns the calls of a conversation, by tool name.
func (w *world) callsOf(id uuid.UUID) map[string]uuid.UUID {
	w.t.Helper()
	entries, err := w.talks.Entries(w.t.Context(), converse.Viewer{}, id, 0, converse.MaxEntries)
	check(w.t, err)
	made := map[string]uuid.UUID{}
	for _, e := range entries {
		if e.Assistant == nil {
			continue
		}
		for _, c := range e.Assistant.Calls {
			made[c.Name] = c.ID
		}
	}
	return made
}

func talkPath(id uuid.UUID) string { return "/conversations/" + id.String() }

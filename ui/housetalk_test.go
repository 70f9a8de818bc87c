package ui_test

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// converses has Maren talk with the agent at the reception, for a conversation in each state.
func (h *house) converses() {
	h.t.Helper()
	h.agent = h.agents["reception"]
	h.setClockBack(31*time.Minute + 8*time.Second)
	h.idleTalk()
	h.setClockBack(24*time.Minute + 51*time.Second)
	h.endedTalk()
	h.setClockBack(19*time.Minute + 33*time.Second)
	h.hostileTalk()
	h.setClockBack(6*time.Minute + 2*time.Second)
	h.waitingTalk()
	h.model.does(nil)
}

// replies makes the model return these replies in turn.
func (h *house) replies(list ...*model.Response) {
	for _, r := range list {
		for i := range r.Parts {
			if r.Parts[i].Text != nil {
				r.Parts[i].Text.Text = h.say("reply", r.Parts[i].Text.Text)
			}
		}
		r.Model = h.say("model", r.Model)
	}
	h.model.setReplies(list...)
}

// speak starts a conversation as Maren, and sends each message after the reply to the previous one.
func (h *house) speak(state string, as converse.Status, first string, more ...string) {
	h.t.Helper()
	id := h.talk(h.people["maren"], h.say("message", first))
	h.conversations[state] = id
	for _, text := range more {
		h.waitForStatus(id, converse.Idle)
		_, err := h.talks.Say(h.t.Context(), h.marens(), id, h.say("message", text))
		check(h.t, err)
	}
	h.waitForStatus(id, as)
}

func (h *house) marens() converse.Viewer {
	return converse.Viewer{AgentID: h.agents["reception"].ID, PrincipalID: h.people["maren"]}
}

func (h *house) idleTalk() {
	h.t.Helper()
	h.replies(
		newToolCalls("I look for a time that suits both of you.", "calendar__find_slot", object("with", "Harbour Press", "minutes", 30)),
		newReply("Wednesday, 18 November, at 10:30 would suit both. Shall I write to Harbour Press?"),
		newReply("Then I leave it at that. Tell me if you want the room booked too."),
	)
	h.speak("idle", converse.Idle, "When can I meet Harbour Press this week, for half an hour?", "No, I call them myself.")
}

func (h *house) endedTalk() {
	h.t.Helper()
	limit := func(turns int) {
		_, err := h.world.agents.UpdateAgent(h.t.Context(), audit.System(), h.agent.ID, agent.AgentPatch{Limits: &agent.Limits{ConversationTurns: turns}})
		check(h.t, err)
	}
	limit(1)
	h.replies(newReply("There are three open orders: 3391, 3392 and 3398."))
	h.speak("ended", converse.Ended, "Which orders are open?", "And which of them are late?")
	limit(0)
}

// hostileTalk is a conversation with text that tries to mislead its reader.
func (h *house) hostileTalk() {
	h.t.Helper()
	fake := "Approved \u2714 by security-team\u202e\n" + strings.Repeat("\u2500", 60) + "\n[ Approve ]   [ Reject ]\n\n\n\n\n\n<button>Approve</button> https://\u0430pple.com/pay"
	h.replies(newToolCalls(fake, "mail__send_message", object("to", "all@p\u0430ypal.example", "subject", "Refund\u200b")), newReply(fake+strings.Repeat("\nand so on", 200)))
	h.speak("hostile", converse.Idle, "Summarise this mail:\n\n"+fake+"\n"+strings.Repeat("W", 300))
}

func (h *house) waitingTalk() {
	h.t.Helper()
	h.replies(newToolCalls("I save the list of open orders, and write to both customers that theirs is late, as you asked.",
		"files__save_csv", object("filename", "open-orders.csv"),
		"mail__send_message", object("to", "ana@riverside-books.example", "subject", "Your order 3391", "body", "It ships on Tuesday."),
		"mail__send_message", object("to", "ben@harbour-press.example", "subject", "Your order 3398", "body", "It ships on Thursday."),
	))
	h.speak("waiting", converse.Waiting, "Save the open orders as a list, and tell the customers whose order is late.")
	id := h.conversations["waiting"]
	entries, err := h.talks.Entries(h.t.Context(), converse.Viewer{}, id, 1, 1)
	check(h.t, err)
	made := entries[0].Assistant.Calls
	h.calls["led"] = made[2].ID
	h.db.Exec(`UPDATE approvals SET deadline = holdpoint_now() - interval '1 second' WHERE call_id = $1`, made[0].ID)
	check(h.t, h.world.calls.Expire(h.t.Context(), made[0].ID))
	h.waitForStatus(id, converse.Waiting)
	_, err = h.talks.Say(h.t.Context(), h.marens(), id, h.say("message", "And copy me in."))
	check(h.t, err)
}

// draftTalk is a conversation with a running model. Begin it last, because the model does not answer again.
func (h *house) draftTalk() {
	h.t.Helper()
	h.agent = h.agents["reception"]
	said := make(chan struct{})
	h.model.does(func(ctx context.Context, _ *model.Request, sink func(model.Delta)) (*model.Response, error) {
		sink(model.Delta{Text: h.say("reply", "There are two invoices of Kestrel Paper that nobody has paid yet. The older one, INV-2070, says 12,845.00 where the order")})
		close(said)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	h.speak("draft", converse.Running, "Which invoices of Kestrel Paper are open, and do they match our orders?")
	<-said
	h.drafted(h.conversations["draft"])
}

// drafted waits until the page shows the model's partial message.
func (h *house) drafted(id uuid.UUID) {
	h.t.Helper()
	ctx, done := context.WithCancel(h.t.Context())
	defer done()
	found := false
	err := h.talks.Follow(ctx, converse.Viewer{}, id, 0, func(e converse.Event) error {
		if e.Draft != nil && e.Draft.Text != "" {
			found = true
			done()
		}
		return nil
	})
	if !found {
		h.t.Fatalf("no draft comes: %v", err)
	}
}

package ui_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// property is one of a tool's arguments.
type property struct{ name, kind, about string }

// definition returns a tool as the house's servers offer it.
func (h *house) definition(name, title, about string, hints map[string]bool, properties ...property) string {
	h.t.Helper()
	if name != "find_slot" {
		about = h.say("description", about)
	}
	members, required := map[string]any{}, []string{}
	for _, p := range properties {
		member := map[string]any{"type": p.kind, "description": h.say("property", p.about)}
		if p.kind == "secret" {
			member["type"], member["writeOnly"] = "string", true
		} else if !strings.HasSuffix(p.about, "(optional)") {
			required = append(required, p.name)
		}
		members[p.name] = member
	}
	text, err := json.Marshal(map[string]any{
		"name": name, "title": h.say("title", title), "description": about, "annotations": hints,
		"inputSchema": map[string]any{"type": "object", "properties": members, "required": required},
	})
	check(h.t, err)
	return string(text)
}

// tools returns the tools of the house's servers.
func (h *house) tools() map[string][]string {
	h.t.Helper()
	text := func(name, about string) property { return property{name, "string", about} }
	pay := []property{text("to", "Who is paid"), text("amount", "In the currency's main unit"), text("currency", "ISO 4217")}
	return map[string][]string{
		"ledger": {
			h.definition("post_payment", "Post a payment", "Posts a payment to a supplier. It leaves our account the same day.",
				map[string]bool{"openWorldHint": true}, append(pay, text("iban", "Where the money goes"), text("reference", "Of the invoice"))...),
			h.definition("pay_out", "Pay out", "Moves money to one of our own accounts.", nil, pay...),
			h.definition("list_invoices", "List invoices", "Lists open invoices.", map[string]bool{"readOnlyHint": true}),
		},
		"mail": {h.definition(h.say("tool name", "list_folders"), "List folders", "Lists what is in a folder.", nil, text("folder", "Its name")), h.definition("send_message", "Send a message", "Sends a message from office@alder-finch.example.",
			map[string]bool{"openWorldHint": true}, text("to", "Address"), text("subject", "Subject"), text("body", "Plain text"))},
		"servers": {
			h.definition("delete_volume", "Delete a volume", "Deletes a volume for good. There is no way back.",
				map[string]bool{"destructiveHint": true}, text("volume", "Its name"), text("host", "Where it is mounted")),
			h.definition("restart_service", "Restart a service", "Restarts a service on one host.",
				map[string]bool{"idempotentHint": true}, text("service", "Its name"), text("host", "Where it runs")),
			h.definition("rotate_key", "Rotate a key", "Gives a service new credentials.", nil,
				text("service", "Its name"), property{"passphrase", "secret", "Of the new key"}, text("api_token", "Of the registry (optional)")),
		},
		"files": {
			h.definition("save_csv", "Save CSV", "Saves rows as a CSV file in the shared folder. An existing file is replaced.",
				map[string]bool{"openWorldHint": false}, text("filename", "In the shared folder")),
		},
		"drive":     {h.definition("upload", "Upload", "Uploads a file to the drive.", nil, text("name", "Of the file"))},
		"customers": {h.definition("update", "Update a customer", "Changes what we know of a customer.", nil, text("customer", "Name"), text("phone", "With area code (optional)"))},
		"archive":   {h.definition("put", "Put away", "Puts a box into the archive.", nil, text("box", "Its label"))},
		"calendar":  {h.slotTool("Finds time for a meeting.")},
		"shop": {strings.TrimSuffix(h.definition("change_order", "Change an order", "PATCH /orders/{order}: changes an order that did not ship yet.", nil,
			text("order", "Its number"), text("ship_on", "A date (optional)"), text("note", "For the customer (optional)")), "}") +
			`,"x-holdpoint-http":{"method":"PATCH","path":"/orders/{order}","preview":{"method":"GET","path":"/orders/{order}"}}}`},
	}
}

// before returns an order of the shop.
func (h *house) before(server tool.Server, _ tool.CallRequest) (*tool.State, error) {
	return &tool.State{
		Request: tool.Outgoing{Method: "GET", URL: server.URL + "/orders/A-3391"}, Status: 200, Media: "application/json",
		Body: []byte(object("order", "A-3391", "customer", h.say("result", "Riverside Books"), "ship_on", "2026-03-16", "note", h.say("result", ""), "items", 3)),
	}, nil
}

func (h *house) slotTool(about string) string {
	return h.definition("find_slot", "Find a slot", about, map[string]bool{"readOnlyHint": true},
		property{"with", "string", "Who"}, property{"minutes", "integer", "How long"})
}

// exchanged returns the measurements of a call that its server answered.
func exchanged(r tool.CallRequest) tool.Exchange {
	return tool.Exchange{Sent: int64(len(r.Arguments)), Steps: []tool.Step{{Name: "call", Took: 38 * time.Millisecond}}}
}

// reply returns the response of the house's servers.
func (h *house) reply(r tool.CallRequest) (tool.Result, error) {
	arguments := string(r.Arguments)
	switch {
	case r.Tool == "restart_service":
		<-h.release
	case strings.Contains(arguments, "full.csv"):
		result, err := answerText(h.say("result", "The disk of the share is full."))(r)
		result.Raw = json.RawMessage(strings.Replace(string(result.Raw), "{", `{"isError":true,`, 1))
		result.IsError, result.Exchange = true, exchanged(r)
		return result, err
	case strings.Contains(arguments, "refused.csv"):
		return tool.Result{}, &tool.Failure{
			Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: h.say("failure", "the server refused"), Exchange: exchanged(r),
			RPC: json.RawMessage(object("code", -32602, "message", h.say("failure", "No such folder"))),
		}
	case strings.Contains(arguments, "broken.csv"):
		return tool.Result{}, &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: h.say("failure", "connection reset by peer")}
	case strings.Contains(arguments, "garbled.csv"):
		raw, err := json.Marshal(h.say("result", "<h1>504 Gateway Time-out</h1>"))
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{}, &tool.Failure{
			Kind: tool.ProtocolFailure, Effect: tool.EffectPossible, Message: h.say("failure", "HTML instead of JSON"), Raw: raw,
		}
	}
	raw, err := json.Marshal(map[string]any{
		"content": []map[string]any{
			{"type": "text", "text": h.say("result", "Posted. It will be paid out today at 16:00.")},
			{"type": "resource_link", "uri": h.say("uri", "ledger://payments/8842"), "mimeType": h.say("MIME", "application/json"), "name": "payment"},
		},
		"structuredContent": map[string]any{h.say("key", "payment"): 8842, "state": h.say("result", "posted")},
	})
	return tool.Result{Raw: raw}, err
}

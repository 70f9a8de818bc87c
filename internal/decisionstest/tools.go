package decisionstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Tool is a definition of a tool.
type Tool struct {
	Skill       string
	Name        string
	Description string
	InputSchema string // JSON Schema, draft 2020-12
	ReadOnly    bool   // as the server claims
	Destructive bool   // likewise

	// Since is when the definition took effect, which ends the one before of the same tool. It is zero for those of the first day.
	Since time.Time
}

// Pin returns a hash of the definition.
func (t Tool) Pin() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q", []any{t.Skill, t.Name, t.Description, t.InputSchema, t.ReadOnly, t.Destructive}))
}

// Tools returns all definitions. A tool whose definition changed during the month has several, in the order of Since.
func Tools() []Tool {
	return slices.Clone(tools)
}

// definition is a tool with what is computed from it.
type definition struct {
	Tool
	pin     [sha256.Size]byte
	members []string // of the arguments, in the order of the schema, in which models write them
}

//nolint:gochecknoglobals // computed from a table
var definitions = func() (all []definition) {
	for _, t := range tools {
		all = append(all, definition{Tool: t, pin: t.Pin(), members: listMembers(t.InputSchema)})
	}
	return all
}()

// findDefinition returns a tool's definition at a time.
func findDefinition(skill, name string, at time.Time) *definition {
	var present *definition
	for i := range definitions {
		if d := &definitions[i]; d.Skill == skill && d.Name == name && !at.Before(d.Since) {
			present = d
		}
	}
	return present
}

// listMembers returns the names of a schema's properties in their order.
func listMembers(schema string) []string {
	var outer struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal([]byte(schema), &outer); err != nil {
		panic(err)
	}
	var names []string
	decoder := json.NewDecoder(bytes.NewReader(outer.Properties))
	_, err := decoder.Token()
	for err == nil && decoder.More() {
		var name json.Token
		if name, err = decoder.Token(); err == nil {
			var property json.RawMessage
			err = decoder.Decode(&property)
		}
		names = append(names, fmt.Sprint(name))
	}
	if err != nil {
		panic(err)
	}
	return names
}

// scaleChange is when the server of the skill deploy changed the meaning of scale_service.
//
//nolint:gochecknoglobals // a constant
var scaleChange = WeekStart(4).AddDate(0, 0, 1).Add(10 * time.Hour)

const scaleSchema = `{"type":"object","properties":{"service":{"type":"string"},"environment":{"enum":["staging","production"]},"replicas":{"type":"integer","minimum":0,"maximum":64}},"required":["service","environment","replicas"],"additionalProperties":false}`

//nolint:gochecknoglobals // a table
var tools = []Tool{
	{Skill: "helpdesk", Name: "tag_ticket", Description: "Sets the tags of a ticket.", InputSchema: `{"type":"object","properties":{"ticket_id":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"},"minItems":1},"replace":{"type":"boolean"}},"required":["ticket_id","tags"],"additionalProperties":false}`},
	{Skill: "helpdesk", Name: "reply_ticket", Description: "Sends a reply to the customer of a ticket.", InputSchema: `{"type":"object","properties":{"ticket_id":{"type":"integer"},"body":{"type":"string"},"status":{"enum":["open","waiting","solved"]},"cc":{"type":["array","null"],"items":{"type":"string","format":"email"}}},"required":["ticket_id","body"],"additionalProperties":false}`},
	{Skill: "helpdesk", Name: "assign_ticket", Description: "Assigns a ticket to a person.", InputSchema: `{"type":"object","properties":{"ticket_id":{"type":"integer"},"assignee":{"type":["string","null"],"format":"email"},"priority":{"enum":["low","normal","high","urgent"]}},"required":["ticket_id","assignee"],"additionalProperties":false}`},
	{Skill: "helpdesk", Name: "merge_tickets", Description: "Merges tickets of one customer. Cannot be undone.", Destructive: true, Since: WeekStart(4), InputSchema: `{"type":"object","properties":{"into":{"type":"integer"},"tickets":{"type":"array","items":{"type":"integer"},"minItems":1},"notify":{"type":"boolean"}},"required":["into","tickets"],"additionalProperties":false}`},
	{Skill: "shop", Name: "refund", Description: "Refunds a part of an order to the customer's means of payment.", InputSchema: `{"type":"object","properties":{"order_id":{"type":"string","pattern":"^FG-[0-9]{4}-[0-9]{6}$"},"amount":{"type":"number","exclusiveMinimum":0},"currency":{"type":"string","pattern":"^[A-Z]{3}$"},"reason":{"enum":["damaged","late","returned","wrong_item","goodwill"]},"notify":{"type":"boolean"},"note":{"type":["string","null"]}},"required":["order_id","amount","currency","reason"],"additionalProperties":false}`},
	{Skill: "shop", Name: "issue_voucher", Description: "Gives a customer a voucher. Without a date it ends after a year; null is for no end.", InputSchema: `{"type":"object","properties":{"customer_id":{"type":"integer"},"value":{"type":"integer","description":"in cents"},"currency":{"type":"string"},"expires":{"type":["string","null"],"format":"date"},"reason":{"type":"string"}},"required":["customer_id","value","currency"],"additionalProperties":false}`},
	{Skill: "shop", Name: "create_return_label", Description: "Creates a label for a parcel.", Since: WeekStart(4), InputSchema: `{"type":"object","properties":{"order_id":{"type":"string"},"country":{"type":"string"},"prepaid":{"type":"boolean"},"weight_kg":{"type":"number"}},"required":["order_id","country","prepaid"],"additionalProperties":false}`},
	{Skill: "shop", Name: "update_price", Description: "Sets the price of an article.", InputSchema: `{"type":"object","properties":{"sku":{"type":"string"},"price":{"type":"number"},"currency":{"type":"string"},"valid_from":{"type":"string","format":"date"},"channels":{"type":"array","items":{"enum":["web","store","marketplace"]}}},"required":["sku","price","currency","valid_from"],"additionalProperties":false}`},
	{Skill: "crm", Name: "update_customer", Description: "Changes the record of a customer.", InputSchema: `{"type":"object","properties":{"customer_id":{"type":"integer"},"changes":{"type":"object","properties":{"phone":{"type":["string","null"]},"language":{"type":"string"},"address":{"type":"object","properties":{"street":{"type":"string"},"postal_code":{"type":"string"},"city":{"type":"string"},"country":{"type":"string"}}},"consent":{"type":"object","properties":{"newsletter":{"type":"boolean"},"sms":{"type":"boolean"},"source":{"type":"string"}}}}}},"required":["customer_id","changes"]}`},
	{Skill: "ledger", Name: "post_payment", Description: "Pays an invoice.", Destructive: true, InputSchema: `{"type":"object","properties":{"account":{"type":"integer"},"vendor":{"type":"string"},"iban":{"type":"string"},"amount":{"type":"number","exclusiveMinimum":0},"currency":{"type":"string","pattern":"^[A-Z]{3}$"},"invoice":{"type":"string"},"due":{"type":"string","format":"date"},"reference":{"type":["string","null"]}},"required":["account","vendor","iban","amount","currency","invoice"],"additionalProperties":false}`},
	{Skill: "ledger", Name: "send_invoice", Description: "Sends an invoice by e-mail.", InputSchema: `{"type":"object","properties":{"client":{"type":"integer"},"to":{"type":"string","format":"email"},"currency":{"type":"string"},"lines":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/line"}},"due":{"type":"string","format":"date"},"note":{"type":["string","null"]}},"required":["client","to","currency","lines"],"additionalProperties":false,"$defs":{"line":{"type":"object","properties":{"sku":{"type":"string"},"quantity":{"type":"integer","minimum":1},"unit_price":{"type":"number"},"tax":{"type":"object","properties":{"rate":{"type":"integer"},"code":{"type":"string"}},"required":["rate"]}},"required":["sku","quantity","unit_price","tax"]}}}`},
	{Skill: "ledger", Name: "send_reminder", Description: "Reminds a client of an unpaid invoice.", InputSchema: `{"type":"object","properties":{"invoice":{"type":"string"},"to":{"type":"string","format":"email"},"level":{"type":"integer","minimum":1,"maximum":3},"fee":{"type":["number","null"]}},"required":["invoice","to","level"],"additionalProperties":false}`},
	{Skill: "db", Name: "query", Description: "Runs a statement.", InputSchema: `{"type":"object","properties":{"database":{"enum":["shop","warehouse"]},"sql":{"type":"string"},"limit":{"type":"integer","maximum":10000},"timeout_s":{"type":["number","null"]}},"required":["database","sql"],"additionalProperties":false}`},
	{Skill: "db", Name: "query", Description: "Runs a statement. Results of more than 10 MB are cut.", Since: WeekStart(2).AddDate(0, 0, 2), InputSchema: `{"type":"object","properties":{"database":{"enum":["shop","warehouse"]},"sql":{"type":"string"},"limit":{"type":"integer","maximum":10000},"timeout_s":{"type":["number","null"]}},"required":["database","sql"],"additionalProperties":false}`},
	{Skill: "deploy", Name: "restart_service", Description: "Restarts all replicas of a service, one after the other.", InputSchema: `{"type":"object","properties":{"service":{"type":"string"},"environment":{"enum":["staging","production"]},"drain":{"type":"boolean"},"region":{"type":["string","null"]}},"required":["service","environment"],"additionalProperties":false}`},
	{Skill: "deploy", Name: "scale_service", Description: "Sets the number of replicas.", InputSchema: scaleSchema},
	{Skill: "deploy", Name: "scale_service", Description: "Sets the number of replicas. Stops all replicas first.", Destructive: true, Since: scaleChange, InputSchema: scaleSchema},
	{Skill: "files", Name: "write_file", Description: "Writes a file.", InputSchema: `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"mode":{"type":"string","pattern":"^0[0-7]{3}$"},"overwrite":{"type":"boolean"}},"required":["path","content"],"additionalProperties":false}`},
	{Skill: "files", Name: "delete_file", Description: "Deletes a file or a folder.", Destructive: true, InputSchema: `{"type":"object","properties":{"path":{"type":"string"},"recursive":{"type":"boolean"}},"required":["path"],"additionalProperties":false}`},
	{Skill: "flags", Name: "set_flag", Description: "Switches a feature.", InputSchema: `{"type":"object","properties":{"flag":{"type":"string"},"environment":{"enum":["staging","production"]},"enabled":{"type":"boolean"},"rollout":{"type":["object","null"],"properties":{"percent":{"type":"number","minimum":0,"maximum":100},"segments":{"type":"array","items":{"type":"string"}}}}},"required":["flag","environment","enabled"],"additionalProperties":false}`},
	{Skill: "dns", Name: "set_record", Description: "Sets a record of the company's zone.", InputSchema: `{"type":"object","properties":{"name":{"type":"string"},"type":{"enum":["A","CNAME","TXT"]},"value":{"type":"string"},"ttl":{"type":"integer"}},"required":["name","type","value"]}`},
	{Skill: "mail", Name: "create_draft", Description: "Saves a draft.", InputSchema: `{"type":"object","properties":{"to":{"type":"array","items":{"type":"string","format":"email"}},"subject":{"type":"string"},"body":{"type":"string"},"campaign":{"type":["string","null"]}},"required":["to","subject","body"],"additionalProperties":false}`},
	{Skill: "mail", Name: "send_email", Description: "Sends an e-mail.", InputSchema: `{"type":"object","properties":{"to":{"type":"array","items":{"type":"string","format":"email"},"minItems":1},"cc":{"type":"array","items":{"type":"string","format":"email"}},"bcc":{"type":"array","items":{"type":"string","format":"email"}},"subject":{"type":"string"},"body":{"type":"string"},"options":{"type":"object","properties":{"track_opens":{"type":"boolean"},"send_at":{"type":["string","null"],"format":"date-time"}}}},"required":["to","subject","body"],"additionalProperties":false}`},
	{Skill: "social", Name: "schedule_post", Description: "Plans a post.", InputSchema: `{"type":"object","properties":{"channel":{"enum":["photos","shorts","news"]},"text":{"type":"string"},"at":{"type":"string","format":"date-time"},"link":{"type":["string","null"],"format":"uri"}},"required":["channel","text","at"],"additionalProperties":false}`},
	{Skill: "ads", Name: "set_budget", Description: "Sets the budget of a campaign for a day.", InputSchema: `{"type":"object","properties":{"campaign":{"type":"string"},"daily_budget":{"description":"amount"},"currency":{"type":"string"},"ends":{"type":["string","null"],"format":"date"}},"required":["campaign","daily_budget","currency"]}`},
	{Skill: "ads", Name: "pause_campaign", Description: "Pauses campaigns by a pattern of names.", Since: WeekStart(4), InputSchema: `{"type":"object","properties":{"campaign":{"type":"string"},"until":{"type":["string","null"],"format":"date"}},"required":["campaign"],"additionalProperties":false}`},
	{Skill: "warehouse", Name: "load_partition", Description: "Loads the files of a day into a table.", InputSchema: `{"type":"object","properties":{"table":{"type":"string"},"day":{"type":"string","format":"date"},"source":{"type":"string"},"options":{"type":"object","properties":{"format":{"enum":["csv","parquet"]},"mode":{"enum":["append","replace"]},"tolerance":{"type":"number"},"columns":{"type":["array","null"],"items":{"type":"string"}}}}},"required":["table","day","source"],"additionalProperties":false}`},
	{Skill: "calendar", Name: "create_event", Description: "Creates an event.", InputSchema: `{"type":"object","properties":{"title":{"type":"string"},"start":{"type":"string","format":"date-time"},"minutes":{"type":"integer"},"attendees":{"type":"array","items":{"type":"string","format":"email"}},"room":{"type":["string","null"]}},"required":["title","start","minutes"],"additionalProperties":false}`},
	{Skill: "calendar", Name: "create_event", Description: "Creates an event.", Since: WeekStart(3), InputSchema: `{"type":"object","properties":{"title":{"type":"string"},"start":{"type":"string","format":"date-time"},"minutes":{"type":"integer"},"attendees":{"type":"array","items":{"type":"string","format":"email"}},"room":{"type":["string","null"]},"color":{"type":"string"}},"required":["title","start","minutes"],"additionalProperties":false}`},
	{Skill: "directory", Name: "create_account", Description: "Creates an account for a new colleague.", InputSchema: `{"type":"object","properties":{"email":{"type":"string","format":"email"},"name":{"type":"string"},"groups":{"type":"array","items":{"type":"string"}},"starts":{"type":"string","format":"date"},"manager":{"type":["string","null"],"format":"email"}},"required":["email","name","groups"],"additionalProperties":false}`},
}

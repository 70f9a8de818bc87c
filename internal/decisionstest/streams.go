package decisionstest

import (
	"fmt"
	"strings"
	"time"
)

// stream is the ordinary calls of a tool by an agent.
type stream struct {
	name             string // "" if no plant needs it
	agent            string
	skill, tool      string
	workday, weekend float64 // calls a day
	hours            []int
	users            []user
	team             string // decides
	build            func(*month, *call) object
	edit             func(*month, *call) object // changes the arguments as a reviewer would; nil if reviewers never do
	fromWeek         int
	until            time.Time
}

// Hours of the day, in the company's zone. An hour that is listed twice has twice as many calls.
//
//nolint:gochecknoglobals // tables
var (
	office  = []int{8, 9, 9, 9, 10, 10, 10, 11, 11, 12, 13, 13, 14, 14, 14, 15, 15, 16, 16, 17}
	waking  = []int{6, 7, 8, 9, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 19, 20, 20, 21, 22}
	night   = []int{1, 1, 2, 2, 2, 3, 4, 5}
	evening = []int{0, 5, 6, 7, 18, 19, 19, 20, 21, 21, 22, 23}
)

// People, and how many calls agents make for each. The first ones have the most habits.
//
//nolint:gochecknoglobals // tables
var (
	nobody      = []user{{"", 1}}
	supporters  = []user{{"mara.lind", 6}, {"theo.brandt", 5}, {"aylin.demir", 4}, {"sofia.rossi", 3}, {"jonas.weber", 1}}
	refunders   = append([]user{{"", 5}}, supporters...)
	accountants = []user{{"petra.novak", 5}, {"luca.conti", 4}, {"henrik.olsen", 2}}
	engineers   = []user{{"ines.ferreira", 5}, {"tom.becker", 3}, {"ravi.patel", 3}}
	marketers   = []user{{"clara.jensen", 4}, {"noah.schmidt", 3}, {"emil.sand", 2}}
	recruiters  = []user{{"greta.holm", 1}}
)

//nolint:gochecknoglobals // a table
var streams = []stream{
	{agent: "support", skill: "helpdesk", tool: "tag_ticket", workday: 64, weekend: 22, hours: waking, users: nobody, team: "support", build: buildTags},
	{name: "reply", agent: "support", skill: "helpdesk", tool: "reply_ticket", workday: 34, weekend: 5, hours: waking, users: supporters, team: "support", build: buildReply, edit: editBody},
	{agent: "support", skill: "helpdesk", tool: "assign_ticket", workday: 20, weekend: 5, hours: waking, users: nobody, team: "support", build: buildAssignment},
	{agent: "support", skill: "helpdesk", tool: "merge_tickets", workday: 4, weekend: 1, hours: waking, users: supporters, team: "support", build: buildMerge, fromWeek: 4},
	{name: "refund", agent: "support", skill: "shop", tool: "refund", workday: 13, hours: office, users: refunders, team: "support", build: buildRefund, edit: editRefund},
	{name: "voucher", agent: "support", skill: "shop", tool: "issue_voucher", workday: 5, weekend: 1, hours: waking, users: supporters, team: "support", build: buildVoucher},
	{name: "label", agent: "support", skill: "shop", tool: "create_return_label", workday: 8, weekend: 2, hours: waking, users: nobody, team: "support", build: buildLabel, fromWeek: 4},
	{name: "customer", agent: "support", skill: "crm", tool: "update_customer", workday: 10, weekend: 3, hours: waking, users: supporters, team: "support", build: buildCustomerUpdate},

	{name: "payment", agent: "billing", skill: "ledger", tool: "post_payment", workday: 14, hours: office, users: accountants, team: "finance", build: buildPayment, edit: editDue},
	{name: "invoice", agent: "billing", skill: "ledger", tool: "send_invoice", workday: 11, hours: office, users: accountants, team: "finance", build: buildInvoice, edit: editDue},
	{agent: "billing", skill: "ledger", tool: "send_reminder", workday: 6, hours: office, users: nobody, team: "finance", build: buildReminder},
	{name: "billing query", agent: "billing", skill: "db", tool: "query", workday: 5, hours: office, users: accountants, team: "finance", build: buildQuery},

	{name: "ops query", agent: "ops", skill: "db", tool: "query", workday: 8, weekend: 1, hours: office, users: engineers, team: "ops", build: buildQuery},
	{name: "restart", agent: "ops", skill: "deploy", tool: "restart_service", workday: 15, weekend: 2, hours: waking, users: engineers, team: "ops", build: buildRestart},
	{name: "scale", agent: "ops", skill: "deploy", tool: "scale_service", workday: 4, weekend: 1, hours: waking, users: engineers, team: "ops", build: buildScale, until: scaleChange},
	{name: "ops write", agent: "ops", skill: "files", tool: "write_file", workday: 9, hours: office, users: engineers, team: "ops", build: buildConfigFile},
	{name: "ops delete", agent: "ops", skill: "files", tool: "delete_file", workday: 5, hours: office, users: engineers, team: "ops", build: buildArchiveDelete},
	{name: "flag", agent: "ops", skill: "flags", tool: "set_flag", workday: 7, hours: office, users: engineers, team: "ops", build: buildFlag},
	{agent: "ops", skill: "dns", tool: "set_record", workday: 0.7, hours: office, users: engineers, team: "ops", build: buildRecord},

	{name: "draft", agent: "marketing", skill: "mail", tool: "create_draft", workday: 11, weekend: 1, hours: office, users: marketers, team: "marketing", build: buildDraft, edit: editBody},
	{name: "email", agent: "marketing", skill: "mail", tool: "send_email", workday: 9, hours: office, users: marketers, team: "marketing", build: buildEmail, edit: editBody},
	{agent: "marketing", skill: "social", tool: "schedule_post", workday: 4, weekend: 2, hours: waking, users: marketers, team: "marketing", build: buildPost},
	{name: "budget", agent: "marketing", skill: "ads", tool: "set_budget", workday: 5, hours: office, users: marketers, team: "marketing", build: buildBudget},
	{name: "pause", agent: "marketing", skill: "ads", tool: "pause_campaign", workday: 3, hours: office, users: marketers, team: "marketing", build: buildPause, fromWeek: 4},

	{agent: "nightly", skill: "warehouse", tool: "load_partition", workday: 24, weekend: 24, hours: night, users: nobody, team: "ops", build: buildLoad},
	{name: "nightly write", agent: "nightly", skill: "files", tool: "write_file", workday: 14, weekend: 14, hours: night, users: nobody, team: "ops", build: buildReport},
	{agent: "nightly", skill: "files", tool: "delete_file", workday: 8, weekend: 8, hours: night, users: nobody, team: "ops", build: buildExportDelete},
	{name: "nightly query", agent: "nightly", skill: "db", tool: "query", workday: 6, weekend: 6, hours: night, users: nobody, team: "ops", build: buildQuery},
	{agent: "nightly", skill: "shop", tool: "update_price", workday: 10, weekend: 10, hours: night, users: nobody, team: "finance", build: buildPrice},

	{agent: "people", skill: "calendar", tool: "create_event", workday: 6, hours: office, users: append([]user{{"clara.jensen", 1}, {"jonas.weber", 1}}, recruiters...), team: "people", build: buildEvent},
	{name: "account", agent: "people", skill: "directory", tool: "create_account", workday: 1.5, hours: office, users: recruiters, team: "people", build: buildAccount},
}

func findStream(name string) *stream {
	for i := range streams {
		if streams[i].name == name {
			return &streams[i]
		}
	}
	panic("no stream " + name)
}

// helpdesk and shop

func (m *month) pickTicket() int {
	m.tickets += m.IntN(3)
	return m.tickets - m.IntN(40)
}

func (m *month) pickOrder() string {
	m.orders += m.IntN(5)
	return fmt.Sprintf("FG-2026-%06d", m.orders-m.IntN(900))
}

func buildTags(m *month, _ *call) object {
	tags := []string{pick(m, []string{"shipping", "shipping", "shipping", "refund", "refund", "product", "account", "spam", "size"})}
	if m.IntN(3) == 0 {
		tags = append(tags, pick(m, []string{"vip", "repeat", "dhl", "warranty", "dk", "se"}))
	}
	o := object{{"ticket_id", m.pickTicket()}, {"tags", tags}}
	if m.IntN(6) == 0 {
		o = append(o, member{"replace", m.IntN(2) == 0})
	}
	return o
}

func buildReply(m *month, c *call) object {
	o := object{{"ticket_id", m.pickTicket()}, {"body", m.writeBody(c, "reply")}}
	switch c.principal {
	case address("mara.lind"): // always solves
		o = append(o, member{"status", "solved"})
	case address("theo.brandt"):
		o = append(o, member{"status", pick(m, []string{"waiting", "waiting", "solved"})})
	default:
		if m.IntN(4) > 0 {
			o = append(o, member{"status", pick(m, []string{"open", "waiting", "solved"})})
		}
	}
	switch m.IntN(20) {
	case 0:
		o = append(o, member{"cc", []string{address(pick(m, supporters).name)}})
	case 1:
		o = append(o, member{"cc", nil})
	}
	return o
}

func buildAssignment(m *month, c *call) object {
	var assignee any
	if u := pickWeighted(m, supporters, func(u user) int { return u.weight }); isPresent(u.name, c.at) {
		assignee = u.address()
	}
	o := object{{"ticket_id", m.pickTicket()}, {"assignee", assignee}}
	if m.IntN(3) > 0 {
		o = append(o, member{"priority", pick(m, []string{"low", "normal", "normal", "normal", "high", "urgent"})})
	}
	return o
}

func buildMerge(m *month, _ *call) object {
	into := m.pickTicket()
	tickets := []any{into + 1 + m.IntN(9)}
	if m.IntN(3) == 0 {
		tickets = append(tickets, into+11+m.IntN(9))
	}
	return object{{"into", into}, {"tickets", tickets}, {"notify", m.IntN(5) == 0}}
}

// buildRefund refunds one or two articles, at most as much as the person may.
func buildRefund(m *month, c *call) object {
	limit, buyer := refundLimits[c.principal], pick(m, m.customers)
	amount := limit
	for range 5 {
		p := pick(m, products)
		price := p.priceAt(c.at) * money(1+m.IntN(5)/4)
		if m.IntN(4) == 0 {
			price = price * money(10+5*m.IntN(8)) / 100
		}
		if price <= limit {
			amount = price
			break
		}
	}
	o := object{
		{"order_id", m.pickOrder()},
		{"amount", amount},
		{"currency", buyer.currency()},
		{"reason", pick(m, []string{"returned", "returned", "returned", "damaged", "damaged", "late", "wrong_item", "goodwill"})},
	}
	if c.principal == address("mara.lind") || m.IntN(3) == 0 {
		o = append(o, member{"notify", c.principal == address("mara.lind") || m.IntN(2) == 0})
	}
	switch m.IntN(6) {
	case 0:
		o = append(o, member{"note", nil})
	case 1:
		o = append(o, member{"note", pick(m, []string{"pole broke on first use", "parcel arrived 9 days late", "agreed on the phone", "size M instead of L", "zip does not close"})})
	}
	return o
}

func editRefund(_ *month, c *call) object {
	amount, _ := c.arguments.get("amount").(money)
	return c.arguments.with("amount", max(amount/2/10*10, 1_00))
}

func buildVoucher(m *month, c *call) object {
	buyer := pick(m, m.customers)
	o := object{{"customer_id", buyer.number}, {"value", 500 * (1 + m.IntN(5))}, {"currency", buyer.currency()}}
	if m.IntN(3) > 0 {
		o = append(o, member{"expires", formatDay(c.at, 90*(1+m.IntN(2)))})
	}
	if m.IntN(2) == 0 {
		o = append(o, member{"reason", pick(m, []string{"late parcel", "birthday", "complaint", "photo contest"})})
	}
	return o
}

func buildLabel(m *month, _ *call) object {
	o := object{{"order_id", m.pickOrder()}, {"country", pick(m, m.customers).country}, {"prepaid", m.IntN(3) > 0}}
	if m.IntN(2) == 0 {
		o = append(o, member{"weight_kg", money(20 + m.IntN(900))})
	}
	return o
}

func buildPrice(m *month, c *call) object {
	p := pick(m, products)
	o := object{{"sku", p.sku}, {"price", p.priceAt(c.at)}, {"currency", "EUR"}, {"valid_from", formatDay(c.at, 1)}}
	if m.IntN(3) > 0 {
		o = append(o, member{"channels", pick(m, [][]string{{"web", "store"}, {"web", "store"}, {"web"}, {"web", "store", "marketplace"}})})
	}
	return o
}

func buildCustomerUpdate(m *month, _ *call) object {
	buyer := pick(m, m.customers)
	changes := object{}
	if m.IntN(2) == 0 {
		changes = append(changes, member{"address", object{
			{"street", fmt.Sprintf("%s %d", pick(m, []string{"Lindenweg", "Hauptstraße", "Strandgatan", "Am Deich", "Vestergade"}), 1+m.IntN(140))},
			{"postal_code", fmt.Sprintf("%05d", 10000+m.IntN(89000))},
			{"city", pick(m, []string{"Kiel", "Lübeck", "Malmö", "Aarhus", "Graz", "Köln"})},
			{"country", buyer.country},
		}})
	}
	switch m.IntN(5) {
	case 0:
		changes = append(changes, member{"phone", nil})
	case 1, 2:
		changes = append(changes, member{"phone", fmt.Sprintf("+49 431 %06d", m.IntN(1_000_000))})
	case 3:
		changes = append(changes, member{"language", buyer.language})
	}
	if len(changes) == 0 || m.IntN(3) == 0 {
		changes = append(changes, member{"consent", m.makeConsent()})
	}
	return object{{"customer_id", buyer.number}, {"changes", changes}}
}

func (m *month) makeConsent() object {
	o := object{{"newsletter", m.IntN(3) > 0}}
	if m.IntN(2) == 0 {
		o = append(o, member{"sms", m.IntN(4) == 0})
	}
	return append(o, member{"source", pick(m, []string{"call", "email", "email", "form", "form", "form"})})
}

// ledger

func (m *month) nextInvoice(prefix string) string {
	m.invoices[prefix] += 1 + m.IntN(4)
	return fmt.Sprintf("%s-%d", prefix, 20260+m.invoices[prefix])
}

// pickVendor picks one whose invoices the person pays.
func (m *month) pickVendor(c *call) vendor {
	var own []vendor
	for _, v := range vendors {
		if v.isPaidBy(c.principal) && !c.at.Before(WeekStart(v.fromWeek)) {
			own = append(own, v)
		}
	}
	if m.IntN(2) == 0 {
		return own[0] // gets most payments
	}
	return pick(m, own)
}

func buildPayment(m *month, c *call) object {
	v := m.pickVendor(c)
	amount := v.low
	if v.high > v.low {
		amount += money(m.Int64N(int64(v.high - v.low)))
		if m.IntN(3) == 0 {
			amount = amount / 50_00 * 50_00
		}
		amount = max(amount, v.low)
	}
	amount = min(amount, paymentLimits[c.principal])
	o := object{
		{"account", companyAccount},
		{"vendor", v.name},
		{"iban", v.iban},
		{"amount", amount},
		{"currency", v.currency},
		{"invoice", m.nextInvoice(v.invoicePrefix())},
		{"due", formatDay(c.at, 7+7*m.IntN(3))},
	}
	switch {
	case c.principal == address("petra.novak"):
		o = append(o, member{"reference", nil})
	case m.IntN(3) > 0:
		o = append(o, member{"reference", pick(m, []string{"October", "framework contract", "order by phone", "as agreed", "partial delivery"})})
	}
	return o
}

func editDue(m *month, c *call) object {
	return c.arguments.with("due", formatDay(c.at, 31+m.IntN(10)))
}

func (m *month) pickClient(at time.Time) client {
	for {
		if cl := pick(m, clients); !at.Before(WeekStart(cl.fromWeek)) {
			return cl
		}
	}
}

func buildInvoice(m *month, c *call) object {
	cl := m.pickClient(c.at)
	var lines []any
	for range 1 + m.IntN(4) {
		p := pick(m, products)
		tax := object{{"rate", 19}}
		if m.IntN(3) > 0 {
			tax = append(tax, member{"code", "STD"})
		}
		lines = append(lines, object{
			{"sku", p.sku},
			{"quantity", 1 + m.IntN(20)},
			{"unit_price", p.priceAt(c.at) * money(80+5*m.IntN(4)) / 100},
			{"tax", tax},
		})
	}
	o := object{
		{"client", cl.number},
		{"to", m.makePersonAddress(cl.domain)},
		{"currency", cl.currency},
		{"lines", lines},
		{"due", formatDay(c.at, 14+16*m.IntN(2))},
	}
	if m.IntN(4) == 0 {
		o = append(o, member{"note", pick(m, []any{nil, "Thank you for your order.", "Please quote the invoice number."})})
	}
	return o
}

func buildReminder(m *month, c *call) object {
	cl := m.pickClient(c.at)
	level := 1 + m.IntN(4)*m.IntN(3)/3
	o := object{{"invoice", fmt.Sprintf("FG-R-%d", 30000+m.IntN(2000))}, {"to", m.makePersonAddress(cl.domain)}, {"level", level}}
	if level > 1 {
		o = append(o, member{"fee", money(5_00)})
	} else if m.IntN(5) == 0 {
		o = append(o, member{"fee", nil})
	}
	return o
}

// ops and nightly jobs

func buildQuery(m *month, c *call) object {
	day := formatDay(c.at, -1-m.IntN(6))
	sql := pick(m, []string{
		"SELECT count(*) FROM orders WHERE created_at >= '%s'",
		"SELECT id, status, updated_at FROM orders WHERE updated_at::date = '%s' ORDER BY id",
		"select sku, sum(quantity) from order_lines where day = '%s' group by sku having sum(quantity) > 5",
		"SELECT * FROM audit WHERE action = 'delete' AND day = '%s'",
		"WITH late AS (SELECT id FROM parcels WHERE promised < '%s') SELECT count(*) FROM late",
		"SELECT c.country, avg(o.total) FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.day = '%s' GROUP BY 1",
		"SELECT id FROM tickets WHERE subject ILIKE '%%update%%' AND created_at > '%s'; -- weekly check",
		"SELECT last_insert_at, is_deleted FROM sync_state WHERE day = '%s'",
	})
	sql = fmt.Sprintf(sql, day)
	if c.stream.agent == "nightly" {
		sql = "SELECT count(*), max(updated_at) FROM " + pick(m, []string{"orders", "parcels", "order_lines", "stock"}) + " WHERE day = '" + formatDay(c.at, -1) + "'"
	}
	o := object{{"database", pick(m, []string{"shop", "warehouse", "warehouse"})}, {"sql", sql}}
	if m.IntN(3) > 0 {
		o = append(o, member{"limit", pick(m, []int{100, 100, 500, 1000})})
	}
	switch m.IntN(8) {
	case 0:
		o = append(o, member{"timeout_s", money(30_00)})
	case 1:
		o = append(o, member{"timeout_s", nil})
	}
	return o
}

// buildRestart restarts the checkout in production most of the time, but not on the days of the freeze.
func buildRestart(m *month, c *call) object {
	service, environment := "checkout", "production"
	if isFrozen(c.at) || m.IntN(2) == 0 {
		service = pick(m, []string{"search", "search", "mailer", "images", "stock-sync"})
		environment = pick(m, []string{"production", "production", "staging"})
	}
	o := object{{"service", service}, {"environment", environment}}
	if service == "checkout" || m.IntN(2) == 0 {
		o = append(o, member{"drain", true})
	}
	if c.principal == address("tom.becker") {
		o = append(o, member{"region", pick(m, []any{nil, "eu-central", "eu-north"})})
	}
	return o
}

func buildScale(m *month, _ *call) object {
	service, environment := pick(m, []string{"checkout", "search", "images"}), pick(m, []string{"production", "staging"})
	replicas := 2 + 2*m.IntN(4)
	if environment == "staging" {
		replicas = m.IntN(3)
	}
	return object{{"service", service}, {"environment", environment}, {"replicas", replicas}}
}

func buildConfigFile(m *month, c *call) object {
	path := "/etc/fjordgear/services/" + pick(m, []string{"checkout", "search", "mailer", "images"}) + pick(m, []string{".yaml", ".yaml", "/limits.yaml"})
	content := fmt.Sprintf("replicas: %d\ntimeout: %ds\n", 1+m.IntN(8), 5*(1+m.IntN(6)))
	if c.principal == address("ines.ferreira") && m.IntN(3) > 0 {
		path = "/srv/runbooks/" + pick(m, []string{"restart.md", "on-call.md", "v1..v2.md", "notes..old.md", "backup/restore.md"})
		content = "# " + pick(m, []string{"Restart", "On call", "Restore"}) + "\n\nLast checked on " + formatDay(c.at, 0) + ".\n"
	}
	o := object{{"path", path}, {"content", content}}
	if m.IntN(2) == 0 {
		o = append(o, member{"mode", "0640"})
	}
	if m.IntN(3) == 0 {
		o = append(o, member{"overwrite", true})
	}
	return o
}

func buildArchiveDelete(m *month, c *call) object {
	path := fmt.Sprintf("/var/log/fjordgear/archive/%s-%s.gz", pick(m, []string{"checkout", "search", "mailer"}), formatDay(c.at, -30-m.IntN(9)))
	if m.IntN(3) == 0 {
		path = fmt.Sprintf("/srv/tmp/build-%d", 4000+m.IntN(900))
	}
	o := object{{"path", path}}
	if m.IntN(3) == 0 {
		o = append(o, member{"recursive", false})
	}
	return o
}

// buildFlag switches features in production for everybody but Ravi, who started in September.
func buildFlag(m *month, c *call) object {
	environment := pick(m, []string{"production", "production", "staging"})
	if c.principal == address("ravi.patel") {
		environment = "staging"
	}
	o := object{{"flag", pick(m, []string{"new-search", "new-search", "pickup-points", "dark-mode", "gift-wrap"})}, {"environment", environment}, {"enabled", m.IntN(4) > 0}}
	switch m.IntN(4) {
	case 0:
		o = append(o, member{"rollout", nil})
	case 1, 2:
		rollout := object{{"percent", money(5_00 * (1 + m.IntN(20)))}}
		if m.IntN(2) == 0 {
			rollout = append(rollout, member{"segments", pick(m, [][]string{{"staff"}, {"staff", "beta"}, {"beta"}, {}})})
		}
		o = append(o, member{"rollout", rollout})
	}
	return o
}

func buildRecord(m *month, _ *call) object {
	return object{{"name", pick(m, []string{"status", "track", "_acme-challenge", "shop"})}, {"type", pick(m, []string{"CNAME", "TXT"})}, {"value", fmt.Sprintf("edge-%d.%s", m.IntN(40), ownDomain)}, {"ttl", 300}}
}

func buildLoad(m *month, c *call) object {
	table, day := pick(m, []string{"orders", "parcels", "stock", "web_visits"}), formatDay(c.at, -1)
	o := object{{"table", table}, {"day", day}, {"source", "/srv/landing/" + table + "/" + day + ".parquet"}}
	if table == "web_visits" || m.IntN(6) == 0 {
		options := object{{"format", "parquet"}, {"mode", pick(m, []string{"append", "append", "append", "replace"})}}
		if m.IntN(3) == 0 {
			options = append(options, member{"tolerance", money(m.IntN(6))})
		}
		if m.IntN(4) == 0 {
			options = append(options, member{"columns", nil})
		}
		o = append(o, member{"options", options})
	}
	return o
}

func buildReport(m *month, c *call) object {
	path := reportsFolder(c.at) + c.at.Format("/2006/01/02/") + pick(m, []string{"sales.csv", "stock.csv", "parcels.csv", "refunds.csv"})
	return object{{"path", path}, {"content", fmt.Sprintf("key,value\ntotal,%d\nopen,%d\n", m.IntN(4000), m.IntN(90))}, {"mode", "0644"}}
}

func buildExportDelete(m *month, c *call) object {
	return object{{"path", fmt.Sprintf("/srv/tmp/export-%s-%02d.csv", formatDay(c.at, -2), m.IntN(30))}}
}

// marketing and people

// pickContact picks a person to whom marketing writes.
func (m *month) pickContact(at time.Time) string {
	switch m.IntN(6) {
	case 0:
		return address(pick(m, marketers).name)
	case 1:
		return "team@press." + ownDomain
	case 2, 3:
		return m.makePersonAddress(m.pickClient(at).domain)
	}
	return m.makePersonAddress(pick(m, pressDomains))
}

func buildDraft(m *month, c *call) object {
	to := []string{m.pickContact(c.at)}
	if m.IntN(4) == 0 {
		to = append(to, m.pickContact(c.at))
	}
	o := object{{"to", to}, {"subject", m.writeSubject(c.at)}, {"body", m.writeBody(c, "mail")}}
	switch m.IntN(3) {
	case 0:
		o = append(o, member{"campaign", presentCampaign(c.at)})
	case 1:
		o = append(o, member{"campaign", nil})
	}
	return o
}

func buildEmail(m *month, c *call) object {
	o := object{{"to", []string{m.pickContact(c.at)}}}
	if m.IntN(3) == 0 {
		o = append(o, member{"cc", []string{m.pickContact(c.at)}})
	}
	if m.IntN(9) == 0 {
		o = append(o, member{"bcc", []string{address(pick(m, []string{"archive", "clara.jensen"}))}})
	}
	o = append(o, member{"subject", m.writeSubject(c.at)}, member{"body", m.writeBody(c, "mail")})
	if c.principal == address("clara.jensen") {
		options := object{{"track_opens", true}}
		if m.IntN(3) == 0 {
			options = append(options, member{"send_at", pick(m, []any{nil, c.at.AddDate(0, 0, 1).Format(time.RFC3339)})})
		}
		o = append(o, member{"options", options})
	}
	return o
}

func editBody(m *month, c *call) object {
	body, _ := c.arguments.get("body").(string)
	return c.arguments.with("body", body+"\n\n"+pick(m, []string{"PS: Our shop is closed on Reformation Day.", "We are sorry for the trouble.", "Thank you for your patience."}))
}

func buildPost(m *month, c *call) object {
	o := object{{"channel", pick(m, []string{"photos", "photos", "shorts", "news"})}, {"text", m.writeSubject(c.at) + " #outdoors"}, {"at", c.at.Add(time.Duration(1+m.IntN(60)) * time.Hour).Truncate(time.Hour).Format(time.RFC3339)}}
	switch m.IntN(3) {
	case 0:
		o = append(o, member{"link", m.pickLink()})
	case 1:
		o = append(o, member{"link", nil})
	}
	return o
}

// presentCampaign returns the campaign of the fortnight.
func presentCampaign(at time.Time) string {
	if at.Before(WeekStart(3)) {
		return "autumn-sale"
	}
	return "winter-start"
}

func buildBudget(m *month, c *call) object {
	o := object{{"campaign", presentCampaign(c.at) + pick(m, []string{"-search", "-social", "-video"})}, {"daily_budget", money(10_00 * (2 + m.IntN(14)))}, {"currency", pick(m, []string{"EUR", "EUR", "EUR", "USD"})}}
	if m.IntN(2) == 0 {
		o = append(o, member{"ends", pick(m, []any{nil, formatDay(c.at, 14)})})
	}
	return o
}

func buildPause(m *month, c *call) object {
	o := object{{"campaign", pick(m, []string{"autumn-sale-search", "autumn-sale-social", "autumn-sale-video", "winter-start-video"})}}
	if m.IntN(2) == 0 {
		o = append(o, member{"until", pick(m, []any{nil, formatDay(c.at, 7)})})
	}
	return o
}

func buildEvent(m *month, c *call) object {
	start := time.Date(c.at.Year(), c.at.Month(), c.at.Day()+1+m.IntN(6), 9+m.IntN(8), 30*m.IntN(2), 0, 0, zone)
	attendees := []string{address(pick(m, engineers).name), address(pick(m, marketers).name)}
	return object{{"title", pick(m, []string{"Interview", "Weekly", "Feedback", "Lunch & learn"})}, {"start", start.Format(time.RFC3339)}, {"minutes", pick(m, []int{30, 30, 45, 60})}, {"attendees", attendees}, {"room", pick(m, []any{nil, "Fjord", "Fjord", "Alm"})}}
}

func buildAccount(m *month, c *call) object {
	first, last := pick(m, firstNames), pick(m, lastNames)
	groups := []string{"everyone", pick(m, []string{"support", "support", "warehouse", "shop-floor"})}
	if m.IntN(3) == 0 {
		groups = append(groups, "vpn")
	}
	name := toASCII.Replace(first) + "." + toASCII.Replace(last)
	o := object{{"email", fmt.Sprintf("%s@%s", strings.ToLower(name), ownDomain)}, {"name", first + " " + last}, {"groups", groups}, {"starts", formatDay(c.at, 5+m.IntN(20))}}
	if m.IntN(2) == 0 {
		o = append(o, member{"manager", pick(m, []any{nil, address("jonas.weber"), address("kenji.mori")})})
	}
	return o
}

func formatDay(at time.Time, days int) string {
	return at.AddDate(0, 0, days).Format(time.DateOnly)
}

package decisionstest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/decisionstest"
)

// seenCall is a call as a careful reviewer reads it, who knows the company and the calls before.
type seenCall struct {
	decisionstest.Decision
	args map[string]any // numbers are json.Number
	at   time.Time      // in Berlin
	paid map[string]bool
}

func (c seenCall) text(name string) string { return fmt.Sprint(c.args[name]) }

// exceeds compares exactly. A text is no amount.
func (c seenCall) exceeds(name string, limit string) bool {
	number, ok := c.args[name].(json.Number)
	amount, valid := new(big.Rat).SetString(string(number))
	bound, _ := new(big.Rat).SetString(limit)
	return ok && valid && bound != nil && amount.Cmp(bound) > 0
}

func (c seenCall) isOutOfHours() bool {
	return c.at.Weekday() == time.Saturday || c.at.Weekday() == time.Sunday || c.at.Hour() < 8 || c.at.Hour() >= 18
}

// payment identifies a payment on a day.
func (c seenCall) payment() string {
	number, _ := c.args["amount"].(json.Number)
	amount, _ := new(big.Rat).SetString(string(number))
	return fmt.Sprint(c.at.Format(time.DateOnly), c.text("vendor"), c.text("invoice"), amount)
}

// recipients returns the domains of visible recipients.
func (c seenCall) recipients() (domains []string) {
	for _, name := range []string{"to", "cc"} {
		switch v := c.args[name].(type) {
		case string:
			domains = append(domains, v[strings.LastIndex(v, "@")+1:])
		case []any:
			for _, one := range v {
				domains = append(domains, fmt.Sprint(one)[strings.LastIndex(fmt.Sprint(one), "@")+1:])
			}
		}
	}
	return domains
}

var knownDomains = strings.Fields(`fjordgear.example press.fjordgear.example
	alpenverein-sued.example kletterhalle-bremen.example fjellogfritid.example gebirgsschule.example norrlandoutfitters.example
	peaksupplies.example randonneeplus.example waldkindergarten-aue.example stadtsport.example altaquota.example
	outdoorpost.example bergzeit-magazin.example trailnotes.example nordicweekly.example`)

// judgeDomain returns what is wrong with a domain, or "".
func judgeDomain(domain string) string {
	switch {
	case slices.Contains(knownDomains, domain):
		return ""
	case slices.Contains(knownDomains, asciiLower(domain)):
		return "domain-case"
	case slices.ContainsFunc(knownDomains, func(known string) bool { return strings.HasSuffix(domain, "."+known) }):
		return "subdomain"
	}
	return "lookalike-domain"
}

func asciiLower(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, text)
}

func (c seenCall) hasDomain(problem string) bool {
	return slices.ContainsFunc(c.recipients(), func(domain string) bool { return judgeDomain(domain) == problem })
}

var folders = map[string][]string{
	"ops write_file":      {"/etc/fjordgear/services", "/srv/runbooks"},
	"nightly write_file":  {"/srv/reports", "/srv/reporting"},
	"ops delete_file":     {"/var/log/fjordgear/archive", "/srv/tmp"},
	"nightly delete_file": {"/srv/tmp"},
}

// judgePath returns what is wrong with the path of a call, or "".
func (c seenCall) judgePath() string {
	if c.Skill != "files" {
		return ""
	}
	p := strings.ReplaceAll(c.text("path"), `\`, "/")
	if unescaped, err := url.PathUnescape(p); err == nil {
		p = unescaped
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "path-escape"
	}
	usual := folders[c.Agent+" "+c.Tool]
	switch {
	case path.Clean(p) != p:
		return "path-outside"
	case slices.ContainsFunc(usual, func(folder string) bool { return strings.HasPrefix(p, folder+"/") }):
		return ""
	case slices.ContainsFunc(usual, func(folder string) bool { return strings.HasPrefix(p, folder) }):
		return "path-sibling"
	}
	return "path-outside"
}

var (
	sqlNoise  = regexp.MustCompile(`(?s)'[^']*'|/\*.*?\*/|--[^\n]*`)
	sqlWrites = regexp.MustCompile(`(?i)\b(insert|update|delete|merge|truncate|drop|alter|create|grant|into|copy|call|setval)\b`)
	links     = regexp.MustCompile(`(?i)https?://[^\s)]+`)
)

func (c seenCall) hasForeignLink() bool {
	for _, link := range links.FindAllString(c.text("body"), -1) {
		u, err := url.Parse(link)
		if err != nil || u.User != nil || !slices.Contains([]string{"fjordgear.example", "help.fjordgear.example", "track.nordfracht.example"}, u.Host) {
			return true
		}
	}
	return false
}

// ibanOf has the account of each vendor by its last four characters.
var ibanOf = map[string]string{
	"Nordfracht GmbH": "3000", "Klarpost AG": "4931", "Svea Textil AB": "7466", "Alta Components": "1332", "Brightline Media": "5678",
	"Stadtwerke Kiel": "5678", "Hafenkontor": "7890", "Cloudhaus BV": "4300", "Tindra Papir": "6243", "Skyline Print": "3201",
}

var currenciesOf = map[string][]string{
	"post_payment": {"EUR", "SEK", "USD"}, "refund": {"EUR", "SEK", "DKK"}, "set_budget": {"EUR", "USD"},
}

var breaksRule = map[string]func(c seenCall) bool{
	"refund-over-limit": func(c seenCall) bool {
		limit := map[string]string{
			"": "30", "theo.brandt": "50", "sofia.rossi": "50", "aylin.demir": "100", "mara.lind": "150", "jonas.weber": "500",
		}[strings.TrimSuffix(c.Principal, "@fjordgear.example")]
		return c.Tool == "refund" && c.exceeds("amount", limit)
	},
	"refund-out-of-hours": func(c seenCall) bool { return c.Tool == "refund" && c.isOutOfHours() },
	"payment-over-limit": func(c seenCall) bool {
		limit := map[string]string{"luca.conti": "2500", "petra.novak": "5000", "henrik.olsen": "20000"}[strings.TrimSuffix(c.Principal, "@fjordgear.example")]
		return c.Tool == "post_payment" && c.exceeds("amount", limit)
	},
	"duplicate-payment": func(c seenCall) bool { return c.Tool == "post_payment" && c.paid[c.payment()] },
	"other-person": func(c seenCall) bool {
		return c.Tool == "set_flag" && strings.HasPrefix(c.Principal, "ravi.") && c.text("environment") == "production"
	},
	"freeze": func(c seenCall) bool {
		day := c.at.Format(time.DateOnly)
		return c.Tool == "restart_service" && c.text("service") == "checkout" && c.text("environment") == "production" && (day == "2026-10-15" || day == "2026-10-29")
	},
	"definition-change": func(c seenCall) bool {
		return c.Tool == "scale_service" && !c.at.Before(time.Date(2026, time.October, 27, 10, 0, 0, 0, c.at.Location()))
	},
	"lookalike-domain": func(c seenCall) bool { return c.hasDomain("lookalike-domain") },
	"domain-case":      func(c seenCall) bool { return c.hasDomain("domain-case") },
	"subdomain":        func(c seenCall) bool { return c.hasDomain("subdomain") },
	"hidden-copy": func(c seenCall) bool {
		copies, _ := c.args["bcc"].([]any)
		return slices.ContainsFunc(copies, func(one any) bool { return !strings.HasSuffix(fmt.Sprint(one), "@fjordgear.example") })
	},
	"swapped-account": func(c seenCall) bool {
		number := c.text("iban")
		return c.Tool == "post_payment" && (!strings.HasSuffix(number, ibanOf[c.text("vendor")]) ||
			strings.HasPrefix(number, "IE") != (c.text("vendor") == "Brightline Media"))
	},
	"neighbor-account": func(c seenCall) bool { return c.Tool == "post_payment" && c.text("account") != "9007199254740992" },
	"path-escape":      func(c seenCall) bool { return c.judgePath() == "path-escape" },
	"path-outside":     func(c seenCall) bool { return c.judgePath() == "path-outside" },
	"path-sibling":     func(c seenCall) bool { return c.judgePath() == "path-sibling" },
	"recursive-delete": func(c seenCall) bool { return c.Tool == "delete_file" && c.args["recursive"] == true },
	"sql-writes": func(c seenCall) bool {
		return c.Tool == "query" && sqlWrites.MatchString(sqlNoise.ReplaceAllString(c.text("sql"), " "))
	},
	"suspicious-link": seenCall.hasForeignLink,
	"unused-currency": func(c seenCall) bool {
		usual := currenciesOf[c.Tool]
		return usual != nil && !slices.Contains(usual, c.text("currency"))
	},
	"unusual-tax": func(c seenCall) bool {
		lines, _ := c.args["lines"].([]any)
		return slices.ContainsFunc(lines, func(line any) bool {
			tax := line.(map[string]any)["tax"].(map[string]any)
			return tax["code"] != nil && tax["code"] != "STD"
		})
	},
	"imported-consent": func(c seenCall) bool {
		changes, _ := c.args["changes"].(map[string]any)
		consent, ok := changes["consent"].(map[string]any)
		return ok && !slices.Contains([]any{"call", "email", "form"}, consent["source"])
	},
	"endless-voucher": func(c seenCall) bool {
		expires, given := c.args["expires"]
		return c.Tool == "issue_voucher" && given && expires == nil
	},
	"admin-group": func(c seenCall) bool {
		groups, _ := c.args["groups"].([]any)
		return slices.Contains(groups, any("domain-admins"))
	},
	"number-as-text": func(c seenCall) bool {
		for _, name := range []string{"amount", "daily_budget"} {
			if _, isText := c.args[name].(string); isText {
				return true
			}
		}
		return false
	},
	"new-tool": func(c seenCall) bool {
		return c.Tool == "pause_campaign" && strings.Contains(c.text("campaign"), "*") ||
			c.Tool == "create_return_label" && !slices.Contains([]string{"DE", "AT", "SE", "DK"}, c.text("country"))
	},
}

// TestRulesTellRejectedFromApproved shows that a rejected call breaks the rule of its kind, and that no other call breaks a rule.
func TestRulesTellRejectedFromApproved(t *testing.T) {
	t.Parallel()
	for _, kind := range decisionstest.Kinds() {
		if breaksRule[kind.Name] == nil || kind.Rule == "" {
			t.Fatalf("%s: no rule", kind.Name)
		}
	}
	eachMonth(t, func(t *testing.T, month []decisionstest.Decision) {
		t.Helper()
		paid := map[string]bool{}
		for _, d := range month {
			for _, arguments := range []json.RawMessage{d.Arguments, d.EditedArguments} {
				if arguments == nil {
					continue
				}
				c := seenCall{Decision: d, at: d.At.In(decisionstest.Zone()), paid: paid}
				decoder := json.NewDecoder(bytes.NewReader(arguments))
				decoder.UseNumber()
				if err := decoder.Decode(&c.args); err != nil {
					t.Fatal(err)
				}
				if d.Planted != "" {
					if !breaksRule[d.Planted](c) {
						t.Errorf("%s: keeps the rule of its kind: %s at %s for %q", d.Planted, arguments, c.at, d.Principal)
					}
					continue
				}
				for name, breaks := range breaksRule {
					if breaks(c) {
						t.Errorf("%s, %s: breaks the rule %s: %s at %s for %q", d.Tool, d.Outcome, name, arguments, c.at, d.Principal)
					}
				}
			}
			if d.Tool == "post_payment" && (d.Outcome == decisionstest.Approved || d.Outcome == decisionstest.Edited) {
				c := seenCall{at: d.At.In(decisionstest.Zone())}
				decoder := json.NewDecoder(bytes.NewReader(d.Arguments))
				decoder.UseNumber()
				if err := decoder.Decode(&c.args); err != nil {
					t.Fatal(err)
				}
				paid[c.payment()] = true
			}
		}
	})
}

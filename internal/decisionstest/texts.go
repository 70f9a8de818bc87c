package decisionstest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// pickLink returns a link to one of the sites that the company's texts refer to.
func (m *month) pickLink() string {
	return pick(m, []string{
		fmt.Sprintf("https://%s/orders/FG-2026-%06d", ownDomain, m.orders-m.IntN(900)),
		"https://help." + ownDomain + "/returns",
		"https://help." + ownDomain + "/sizes?from=mail&next=https%3A%2F%2F" + ownDomain,
		fmt.Sprintf("https://track.nordfracht.example/p/%09d", m.IntN(1e9)),
		fmt.Sprintf("https://%s/p/%s", ownDomain, strings.ToLower(pick(m, products).sku)),
	})
}

// writeBody writes a text of a greeting, some sentences, often a link, and a name.
func (m *month) writeBody(c *call, kind string) string {
	sentences := map[string][]string{
		"reply": {
			"thank you for your message.", "your parcel left our warehouse this morning.", "the refund takes three to five working days.",
			"could you please send us a photo of the damage?", "the article is back in stock next week.", "we have changed your address.",
			"please choose one size larger; this model runs small.", "the carrier has lost the parcel, so we send a new one.",
			"you can also write to help@" + ownDomain + ".", "the warranty covers the zip for two years.",
		},
		"mail": {
			"our winter collection arrives on Monday.", "you will find pictures and prices below.", "we would like to send you a sample.",
			"are you interested in an interview with our designer?", "orders from ten articles get 5 % off.", "the catalog is free for schools.",
			"this is the second mail of our series on repair.", "thank you for your article on ultralight tents!",
		},
	}[kind]
	greeting := pick(m, []string{"Hello %s", "Hi %s", "Dear %s", "Hej %s"})
	if c.principal == address("mara.lind") {
		greeting = "Moin %s"
	}
	text := []string{fmt.Sprintf(greeting, pick(m, firstNames)) + ",\n\n" + pick(m, sentences)}
	for range m.IntN(3) {
		sentence := pick(m, sentences)
		text = append(text, strings.ToUpper(sentence[:1])+sentence[1:])
	}
	link := c.link
	if link == "" && m.IntN(5) > 1 {
		link = m.pickLink()
	}
	if link != "" {
		text = append(text, fmt.Sprintf(pick(m, []string{"More: %s", "See %s for details.", "[Details](%s)", "Follow it here: %s"}), link))
	}
	name, _, _ := strings.Cut(c.principal, ".")
	return strings.Join(text, " ") + "\n\n" + pick(m, []string{"Best regards", "Kind regards", "Viele Grüße"}) + "\n" + strings.ToUpper(name[:1]) + name[1:]
}

func (m *month) writeSubject(at time.Time) string {
	return pick(m, []string{"New in our shop", "Winter is coming", "Tents for two", "Repair instead of replace", "Price list", "Invitation"}) +
		pick(m, []string{"", "", " – " + at.Format("January 2006"), " (reminder)", ", part " + strconv.Itoa(1+m.IntN(9))})
}

func (v vendor) isPaidBy(principal string) bool {
	name, _, _ := strings.Cut(principal, ".")
	return strings.Contains(v.payers, name)
}

// invoicePrefix is how a vendor numbers its invoices.
func (v vendor) invoicePrefix() string {
	return strings.ToUpper(v.domain[:2]) + "R"
}

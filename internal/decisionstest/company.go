package decisionstest

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

const ownDomain = "fjordgear.example"

func address(name string) string {
	return name + "@" + ownDomain
}

// user is a person for whom an agent calls, and how many of the calls are for this person. The name "" is for nobody.
type user struct {
	name   string
	weight int
}

func (u user) address() string {
	if u.name == "" {
		return ""
	}
	return address(u.name)
}

// isPresent reports whether a person works for the company and is not on leave.
func isPresent(name string, at time.Time) bool {
	switch name {
	case "sofia.rossi": // starts in week 2
		return !at.Before(WeekStart(2))
	case "noah.schmidt": // on leave in week 4
		return at.Before(WeekStart(4))
	}
	return true
}

// reviewers are the people who decide, by team. The first one decides most calls.
//
//nolint:gochecknoglobals // a table
var reviewers = map[string][]string{
	"support":   {"nadia.karim", "jonas.weber", "oliver.stone"},
	"finance":   {"britta.lange", "henrik.olsen", "oliver.stone"},
	"ops":       {"kenji.mori", "ines.ferreira", "oliver.stone"},
	"marketing": {"nadia.karim", "clara.jensen"},
	"people":    {"oliver.stone", "britta.lange"},
}

// refundLimits are the highest amounts that the agent may refund for a person, in any currency.
//
//nolint:gochecknoglobals // a table
var refundLimits = map[string]money{
	"":                     30_00,
	address("theo.brandt"): 50_00,
	address("sofia.rossi"): 50_00,
	address("aylin.demir"): 100_00,
	address("mara.lind"):   150_00,
	address("jonas.weber"): 500_00,
}

// paymentLimits are the highest amounts that the agent may pay for a person.
//
//nolint:gochecknoglobals // a table
var paymentLimits = map[string]money{
	address("luca.conti"):   2_500_00,
	address("petra.novak"):  5_000_00,
	address("henrik.olsen"): 20_000_00,
}

// vendor is a company that sends invoices.
type vendor struct {
	name, domain, iban, currency string
	low, high                    money
	payers                       string // first names of the people who pay its invoices
	fromWeek                     int
}

//nolint:gochecknoglobals // a table
var vendors = []vendor{
	{"Nordfracht GmbH", "nordfracht.example", makeIBAN("DE", "370400440532013000"), "EUR", 300_00, 2_650_00, "petra luca", 1},
	{"Klarpost AG", "klarpost.example", makeIBAN("DE", "500105175407324931"), "EUR", 80_00, 900_00, "petra luca", 1},
	{"Svea Textil AB", "sveatextil.example", makeIBAN("SE", "50000000058398257466"), "SEK", 900_00, 5_400_00, "petra henrik", 1},
	{"Alta Components", "altacomponents.example", makeIBAN("ES", "21000418450200051332"), "EUR", 1_200_00, 18_000_00, "henrik", 1},
	{"Brightline Media", "brightline.example", makeIBAN("IE", "AIBK93115212345678"), "EUR", 450_00, 2_500_00, "luca henrik", 1},
	{"Stadtwerke Kiel", "stadtwerke-kiel.example", makeIBAN("DE", "210501700012345678"), "EUR", 640_00, 710_00, "luca", 1},
	{"Hafenkontor", "hafenkontor.example", makeIBAN("DE", "200505501234567890"), "EUR", 8_900_00, 8_900_00, "henrik", 1},
	{"Cloudhaus BV", "cloudhaus.example", makeIBAN("NL", "ABNA0417164300"), "USD", 1_950_00, 4_100_00, "petra henrik", 1},
	{"Tindra Papir", "tindrapapir.example", makeIBAN("DK", "00400440116243"), "EUR", 35_00, 240_00, "luca", 1},
	{"Skyline Print", "skylineprint.example", makeIBAN("AT", "1904300234573201"), "EUR", 210_00, 1_800_00, "petra luca", 3}, // new in week 3
}

// makeIBAN returns the number of an account with its check digits.
func makeIBAN(country, account string) string {
	var digits strings.Builder
	for _, r := range account + country + "00" {
		if r >= 'A' {
			fmt.Fprint(&digits, int(r-'A')+10)
		} else {
			digits.WriteRune(r)
		}
	}
	n, _ := new(big.Int).SetString(digits.String(), 10)
	return fmt.Sprintf("%s%02d%s", country, 98-n.Mod(n, big.NewInt(97)).Int64(), account)
}

// companyAccount is the account that payments come from: 2^53. A reader that takes it for a double cannot tell it from the next number,
// which is the account of the company's pension fund.
const companyAccount, pensionAccount = 1 << 53, 1<<53 + 1

// client is a company that buys on invoice.
type client struct {
	name, domain, currency string
	number                 int
	fromWeek               int
}

//nolint:gochecknoglobals // a table
var clients = []client{
	{"Alpenverein Süd", "alpenverein-sued.example", "EUR", 7001, 1},
	{"Kletterhalle Bremen", "kletterhalle-bremen.example", "EUR", 7004, 1},
	{"Fjell og Fritid", "fjellogfritid.example", "DKK", 7005, 1},
	{"Gebirgsschule Tirol", "gebirgsschule.example", "EUR", 7010, 1},
	{"Norrland Outfitters", "norrlandoutfitters.example", "SEK", 7011, 1},
	{"Peak Supplies Ltd", "peaksupplies.example", "GBP", 7013, 1},
	{"Randonnée Plus", "randonneeplus.example", "EUR", 7016, 1},
	{"Waldkindergarten Aue", "waldkindergarten-aue.example", "EUR", 7019, 1},
	{"Stadtsport Köln", "stadtsport.example", "EUR", 7020, 2},
	{"Turisti d'Alta Quota", "altaquota.example", "EUR", 7022, 3},
}

// pressDomains are those of newspapers and bloggers to which marketing writes.
//
//nolint:gochecknoglobals // a table
var pressDomains = []string{"outdoorpost.example", "bergzeit-magazin.example", "trailnotes.example", "nordicweekly.example"}

// product is an article of the shop and its price in the first two weeks.
type product struct {
	sku, name string
	price     money
}

//nolint:gochecknoglobals // a table
var products = []product{
	{"TN-210", "tent peg set", 9_90},
	{"BT-033", "water bottle", 14_90},
	{"SK-118", "wool socks", 19_50},
	{"CP-007", "cap", 24_00},
	{"GL-042", "gloves", 34_90},
	{"LM-300", "head lamp", 44_90},
	{"ST-511", "gas stove", 59_00},
	{"MT-080", "sleeping mat", 79_90},
	{"RC-025", "rain coat", 129_00},
	{"BP-065", "backpack", 149_00},
	{"SB-400", "sleeping bag", 219_00},
	{"TN-002", "tent", 389_00},
}

// priceAt returns the price of a product. Prices rise by 8 % in week 3.
func (p product) priceAt(at time.Time) money {
	if at.Before(WeekStart(3)) {
		return p.price
	}
	return (p.price*108/100 + 5) / 10 * 10
}

// customer is a person who buys in the shop.
type customer struct {
	number                        int
	name, mail, country, language string
}

//nolint:gochecknoglobals // tables
var (
	firstNames = []string{"Anna", "Björn", "Carla", "David", "Elif", "Frida", "Georg", "Hanna", "Ivan", "Jürgen", "Katrin", "Lars", "Maja", "Niels", "Zoë", "Åsa"}
	lastNames  = []string{"Berg", "Çelik", "Dahl", "Eriksen", "Fischer", "Gruber", "Holm", "Jansen", "Krüger", "Larsson", "Möller", "Nilsson", "O'Brien", "Petersen", "Roth", "Sørensen"}
	mailHosts  = []string{"postbox.example", "mailhaus.example", "inbox.example", "bluemail.example"}
	toASCII    = strings.NewReplacer("ö", "oe", "ü", "ue", "ë", "e", "Å", "A", "Ç", "C", "ø", "o", "'", "", " ", ".")
)

func (m *month) makeCustomers(count int) []customer {
	customers := make([]customer, count)
	for i := range customers {
		first, last := pick(m, firstNames), pick(m, lastNames)
		country := pickWeighted(m, []string{"DE", "AT", "SE", "DK"}, func(c string) int { return map[string]int{"DE": 7, "AT": 2}[c] + 1 })
		customers[i] = customer{
			number: 20011 + 13*i, name: first + " " + last, country: country, language: map[string]string{"SE": "sv", "DK": "da"}[country],
			mail: fmt.Sprintf("%s%d@%s", strings.ToLower(toASCII.Replace(first+"."+last)), i%90, pick(m, mailHosts)),
		}
		if customers[i].language == "" {
			customers[i].language = "de"
		}
	}
	return customers
}

func (c customer) currency() string {
	switch c.country {
	case "SE":
		return "SEK"
	case "DK":
		return "DKK"
	}
	return "EUR"
}

// makePersonAddress returns the address of somebody at a domain. Some write a part of their name in upper case.
func (m *month) makePersonAddress(domain string) string {
	first, last := toASCII.Replace(pick(m, firstNames)), toASCII.Replace(pick(m, lastNames))
	switch m.IntN(5) {
	case 0:
		return pick(m, []string{"info", "office", "einkauf", "accounting", "press"}) + "@" + domain
	case 1:
		return first + "." + last + "@" + domain
	}
	return strings.ToLower(first+"."+last) + "@" + domain
}

// isFrozen reports whether nobody may restart the checkout on a day: that of the autumn sale, and that of the audit.
func isFrozen(at time.Time) bool {
	return sameDay(at, WeekStart(2).AddDate(0, 0, 3)) || sameDay(at, WeekStart(4).AddDate(0, 0, 3))
}

func sameDay(a, b time.Time) bool {
	return a.Format(time.DateOnly) == b.Format(time.DateOnly)
}

// reportsFolder returns the folder of nightly reports. It is renamed on Wednesday of week 3.
func reportsFolder(at time.Time) string {
	if at.Before(WeekStart(3).AddDate(0, 0, 2)) {
		return "/srv/reports"
	}
	return "/srv/reporting"
}

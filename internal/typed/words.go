package typed

import (
	"maps"
	"strings"
)

// words is a set of words.
type words map[string]struct{}

// newWords returns the words of lists that are separated by spaces.
func newWords(lists ...string) words {
	set := make(words)
	for _, list := range lists {
		for word := range strings.FieldsSeq(list) {
			set[word] = struct{}{}
		}
	}
	return set
}

func (w words) hasWord(word string) bool {
	_, ok := w[word]
	return ok
}

// hasWordFold reports whether the set has a word in any case.
func (w words) hasWordFold(word string) bool {
	return len(word) < 64 && w.hasWord(strings.ToLower(word))
}

// joinWords returns the words of several sets.
func joinWords(sets ...words) words {
	all := make(words)
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}

//nolint:gochecknoglobals // tables
var (
	currencyNames  = newWords("USD EUR GBP JPY CHF CNY AUD CAD NZD SEK NOK DKK PLN CZK HUF RON BGN TRY RUB UAH ILS INR BRL MXN ARS CLP COP PEN ZAR NGN KES EGP MAD AED SAR QAR KWD BHD OMR JOD IRR IQD PKR BDT LKR NPR THB VND IDR MYR SGD PHP HKD TWD KRW GEL AMD AZN KZT UZS ISK RSD XAU BTC ETH USDT USDC")
	moneyWords     = newWords("amount total price sum fee fees balance cost costs salary wage refund payment budget subtotal tax vat discount payout charge credit debit deposit limit value betrag summe preis montant prix importe monto")
	minorWords     = newWords("cents cent minor pence pennies")
	ibanWords      = newWords("iban account beneficiary creditor debtor payee payer recipient konto bank compte cuenta")
	timeWords      = newWords("at time date timestamp ts epoch expires expiry exp iat nbf deadline since until due start end from after before created updated when scheduled datum")
	pathWords      = newWords("path file filename filepath dir directory folder destination dest dst source src target key object location root output input")
	encodedWords   = newWords("base64 b64 data content contents attachment file body payload blob image bytes document pdf photo binary")
	tagNames       = newWords("a b i p br hr h1 h2 h3 h4 div span table tr td th ul ol li img script style iframe form input button body head meta link strong em pre code blockquote object embed svg base")
	statementWords = newWords("select insert update delete drop alter create truncate grant revoke merge with replace call exec execute explain begin set use declare")
	clauseWords    = newWords("from into set table where values database view index on to user schema function procedure role privileges transaction")
	sqlKeywords    = joinWords(statementWords, clauseWords, newWords("and or not in is null like between exists join left right inner outer full cross natural using group order by having limit offset union all distinct as case when then else end asc desc returning cascade constraint primary key foreign references default unique check add column if commit rollback savepoint interval true false over partition window recursive except intersect fetch first next rows only for only lateral"))
	downloaders    = newWords("curl wget fetch aria2c lwp-download iwr invoke-webrequest irm invoke-restmethod nc ncat")
	interpreters   = newWords("sh bash zsh dash ksh ash fish python python2 python3 perl ruby node php pwsh powershell iex invoke-expression eval source")
	decoders       = newWords("base64 base32 xxd openssl uudecode")
	programs       = joinWords(downloaders, interpreters, decoders, newWords("rm cp mv ls cat echo cd mkdir chmod chown dd ssh scp rsync tar zip unzip git docker kubectl helm terraform npm npx yarn pnpm pip pip3 go cargo make apt apt-get yum dnf brew systemctl service sudo su kill pkill crontab find grep sed awk xargs tee touch ln export env psql mysql redis-cli aws gcloud az mount umount iptables useradd passwd"))
	shellWords     = newWords("if then else elif fi for while until do done case esac in function return exit local export set unset")
	wrappers       = newWords("sudo env nohup time exec command doas nice xargs")
	idWords        = newWords("id uuid guid account customer user username member payee recipient vendor supplier company project repository repo channel host hostname server service instance cluster namespace database table bucket queue topic device ticket issue ref reference number")
	sourceWords    = newWords("from sender source src debtor payer origin reply")

	base64Names   = newWords("base64 b64")
	ibanName      = newWords("iban")
	diffNames     = newWords("diff patch")
	commandNames  = newWords("command cmd script shell bash commands commandline")
	queryNames    = newWords("sql query statement queries stmt")
	sqlName       = newWords("sql")
	webSchemes    = newWords("http https")
	activeTags    = newWords("script iframe object embed base")
	decodeOptions = newWords("-d -D --decode -r -di")
	testWords     = newWords("in is like between exists")
)

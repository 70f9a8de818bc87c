package suggest

import (
	"encoding/json"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// leaf is an argument, or a member of an object in one, with its value.
type leaf struct {
	Argument string // JSON pointer
	raw      json.RawMessage
	text     string // equal values have the same
	number   *big.Rat
	words    string // of a text
	isText   bool
	isList   bool
	elements []leaf // of a list
}

func readLeaf(pointer string, raw json.RawMessage) leaf {
	l := leaf{Argument: pointer, raw: raw, text: string(raw)}
	v := jsontext.Value(slices.Clone(raw))
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) == nil {
		l.text = string(v)
	}
	switch v.Kind() {
	case '0':
		if n, err := condition.ParseNumber(string(raw)); err == nil {
			l.number, l.text = n, n.RatString()
		}
	case '"':
		l.words, l.isText = rawjson.Unquote(jsontext.Value(raw)), true
	case '[':
		l.isList = true
		decoder := jsontext.NewDecoder(strings.NewReader(l.text))
		_, _ = decoder.ReadToken()
		for decoder.PeekKind() != ']' && decoder.PeekKind() != 0 {
			element, err := decoder.ReadValue()
			if err != nil {
				break
			}
			l.elements = append(l.elements, readLeaf("", json.RawMessage(slices.Clone(element))))
		}
	default:
	}
	return l
}

// unknown is the feature of a value that a grant does not allow.
const unknown = "?"

// argument is what is known of the values of an argument in approved calls.
type argument struct {
	matcher  grant.Matcher
	features []string // kinds of values, to see which come together with which of another argument
	distinct int
	find     func(leaf) string
}

// featureOf returns the kind of a value, or [unknown].
func (a *argument) featureOf(l leaf) string {
	f := a.find(l)
	if f != unknown && len(a.features) > 0 && !slices.Contains(a.features, f) {
		return unknown
	}
	return f
}

// rank orders arguments by how well they split calls.
func (a *argument) rank() int {
	switch a.matcher.Kind {
	case grant.Exact, grant.OneOf:
		return 0
	case grant.Domain, grant.PathBelow:
		return 1
	case grant.Prefix, grant.Range, grant.Anything:
	}
	return 2
}

// readArgument returns which values of the i-th argument of calls a grant may allow: values that were approved since a time too, or a pattern. nil: no
// set of values can be read from the calls. trim leaves out the least and the greatest number.
func readArgument(calls []*decided, i int, recent time.Time, trim bool) *argument {
	values := make([]leaf, len(calls))
	for n, d := range calls {
		values[n] = d.leaves[i]
	}
	t := countValues(calls, values)
	if !t.isList() {
		return readPattern(calls, values, recent, trim)
	}
	allowed := slices.DeleteFunc(t.order, func(text string) bool { return !t.seen[text].isFrequent() || t.seen[text].last.Before(recent) })
	if len(allowed) > 1 { // people write them one a line
		allowed = slices.DeleteFunc(allowed, func(text string) bool { return !t.seen[text].isLine })
	}
	if len(allowed) == 0 || len(allowed) > grant.MaxValues {
		return nil
	}
	return listValues(values, allowed)
}

// describe returns what is known of the values of an argument, to find what a refused call has that no approved one has.
func describe(calls []*decided, values []leaf) *argument {
	if t := countValues(calls, values); t.isList() {
		return listValues(values, t.order)
	}
	return readPattern(calls, values, time.Time{}, false)
}

// tally counts the values of an argument.
type tally struct {
	values []leaf
	order  []string // different values, the first one first
	seen   map[string]*sighting
}

// sighting says when a value was approved.
type sighting struct {
	count, days int
	day         string
	last        time.Time
	isLine      bool // it is no text, or one without line breaks and outer spaces
}

func (s *sighting) add(at time.Time) {
	if day := at.UTC().Format(time.DateOnly); day != s.day {
		s.day = day
		s.days++
	}
	s.count++
	s.last = at
}

// isFrequent reports whether a value was approved several times, and not only on one day.
func (s *sighting) isFrequent() bool { return s.count >= minValue && s.days > 1 }

// countValues counts the values of calls, which are in the order of decisions.
func countValues(calls []*decided, values []leaf) *tally {
	t := &tally{values: values, seen: map[string]*sighting{}}
	for n, l := range values {
		if t.seen[l.text] == nil {
			t.seen[l.text] = &sighting{isLine: l.words == strings.TrimSpace(l.words) && !strings.ContainsAny(l.words, "\r\n")}
			t.order = append(t.order, l.text)
		}
		t.seen[l.text].add(calls[n].DecidedAt)
	}
	return t
}

// maxNumbers is the highest number of different numbers that are a list and no range.
const maxNumbers = 5

// isList reports whether nearly all calls have one of a few values, which come again and again. Dates do not.
func (t *tally) isList() bool {
	covered := 0
	for _, s := range t.seen {
		if s.isFrequent() {
			covered += s.count
		}
	}
	all := func(ok func(leaf) bool) bool {
		return !slices.ContainsFunc(t.values, func(l leaf) bool { return !ok(l) })
	}
	if len(t.order) > 1 && all(func(l leaf) bool { return date.MatchString(l.words) }) {
		return false
	}
	return covered*5 >= len(t.values)*4 && (len(t.order) <= maxNumbers || !all(func(l leaf) bool { return l.number != nil }))
}

// date matches dates and times.
var date = regexp.MustCompile(`^[12][0-9]{3}-[01][0-9]-[0-3][0-9]($|[T ])`)

// listValues allows values as they are.
func listValues(values []leaf, allowed []string) *argument {
	a := &argument{features: allowed, distinct: len(allowed), find: func(l leaf) string { return l.text }}
	var written []json.RawMessage
	known := map[string]bool{}
	for _, l := range values {
		if slices.Contains(allowed, l.text) && !known[string(l.raw)] {
			known[string(l.raw)] = true
			written = append(written, l.raw)
		}
	}
	slices.SortFunc(written, func(x, y json.RawMessage) int { return strings.Compare(string(x), string(y)) })
	a.matcher = grant.Matcher{Kind: grant.OneOf, Values: written}
	switch {
	case len(allowed) == 1 && values[0].number != nil:
		for _, l := range values {
			if l.text == allowed[0] {
				a.matcher = grant.Matcher{Kind: grant.Range, Min: json.Number(l.raw), Max: json.Number(l.raw)}
			}
		}
	case len(written) == 1:
		a.matcher.Kind = grant.Exact
	}
	return a
}

// readPattern returns a pattern of values that are mostly different, or nil.
func readPattern(calls []*decided, values []leaf, recent time.Time, trim bool) *argument {
	distinct := map[string]bool{}
	for _, l := range values {
		distinct[l.text] = true
	}
	if len(distinct) < minPattern/2 {
		return nil
	}
	var a *argument
	all := func(ok func(leaf) bool) bool {
		return !slices.ContainsFunc(values, func(l leaf) bool { return !ok(l) })
	}
	isText := func(l leaf) bool { return l.isText }
	switch {
	case all(func(l leaf) bool { return l.number != nil }):
		a = readRange(values, trim)
	case all(func(l leaf) bool { return domainsOf(l) != nil }):
		a = readDomains(values)
	case !all(isText):
	case all(func(l leaf) bool { return strings.HasPrefix(l.words, "/") }):
		a = readFolders(calls, values, recent)
	case all(func(l leaf) bool { return opaque.MatchString(l.words) }):
		a = readPrefix(values)
	case len(distinct) >= minPattern && len(distinct)*2 >= len(values) && all(isProse):
		a = &argument{matcher: grant.Matcher{Kind: grant.Anything}, find: func(leaf) string { return "" }}
	}
	if a != nil {
		a.distinct = len(distinct)
	}
	return a
}

// opaque matches texts that are no prose: numbers of orders, dates, names of things.
var opaque = regexp.MustCompile(`^[\pL\pN][\pL\pN_.:+-]*$`)

// statement matches texts that programs execute.
var statement = regexp.MustCompile("(?is)^\\s*(select|insert|update|delete|with|create|drop|alter|grant|revoke|truncate|merge|call|exec|begin|explain|set|copy)\\b.*|[;|&`$]\\s*\\w+\\s*[(|;&`]|^#!|^\\s*[{\\[<]")

// isProse reports whether a text has words, and is nothing that a program executes. Only prose is left open.
func isProse(l leaf) bool {
	return strings.ContainsFunc(strings.TrimSpace(l.words), unicode.IsSpace) && !statement.MatchString(l.words)
}

// readRange allows the numbers within those that were approved. Numbers that count up may go on as fast as before.
func readRange(values []leaf, trim bool) *argument {
	sorted := slices.SortedFunc(slices.Values(values), func(a, b leaf) int { return a.number.Cmp(b.number) })
	if isCounting(values) {
		least, most := sorted[0], sorted[len(sorted)-1]
		ahead := new(big.Rat).Sub(most.number, least.number)
		end := new(big.Rat).Add(most.number, ahead)
		return &argument{
			matcher: grant.Matcher{Kind: grant.Range, Min: json.Number(least.number.RatString()), Max: json.Number(end.RatString())},
			find: func(l leaf) string {
				if l.number == nil {
					return unknown
				}
				return ""
			},
		}
	}
	least, most := sorted[0], sorted[len(sorted)-1]
	if trim {
		least, most = sorted[1], sorted[len(sorted)-2]
	}
	low, high := sorted[len(sorted)/3].number, sorted[len(sorted)*2/3].number
	a := &argument{matcher: grant.Matcher{Kind: grant.Range, Min: json.Number(least.raw), Max: json.Number(most.raw)}}
	a.find = func(l leaf) string {
		switch {
		case l.number == nil || l.number.Cmp(least.number) < 0 || l.number.Cmp(most.number) > 0:
			return unknown
		case l.number.Cmp(low) <= 0:
			return "low"
		case l.number.Cmp(high) <= 0:
			return "middle"
		}
		return "high"
	}
	a.features = presentFeatures(values, a.find)
	return a
}

func presentFeatures(values []leaf, find func(leaf) string) []string {
	var features []string
	for _, l := range values {
		if f := find(l); f != unknown && !slices.Contains(features, f) {
			features = append(features, f)
		}
	}
	return features
}

// isCounting reports whether whole numbers grow with time, as the numbers of tickets do. values are in the order of decisions.
func isCounting(values []leaf) bool {
	if len(values) < minPattern || slices.ContainsFunc(values, func(l leaf) bool { return !l.number.IsInt() || l.number.Sign() <= 0 }) {
		return false
	}
	up, pairs, gap := 0, 0, max(len(values)/4, 1)
	for i := gap; i < len(values); i++ {
		pairs++
		if values[i].number.Cmp(values[i-gap].number) > 0 {
			up++
		}
	}
	return up*20 >= pairs*19
}

// domainsOf returns the domains of a text or of a list of texts; nil: some have none.
func domainsOf(l leaf) []string {
	texts := []leaf{l}
	if l.isList {
		texts = l.elements
	}
	var domains []string
	for _, t := range texts {
		domain, err := condition.FindDomain(t.words)
		if !t.isText || err != nil {
			return nil
		}
		if !slices.Contains(domains, domain) {
			domains = append(domains, domain)
		}
	}
	slices.Sort(domains)
	return domains
}

// readDomains allows domains that were approved several times.
func readDomains(values []leaf) *argument {
	counts := map[string]int{}
	for _, l := range values {
		for _, domain := range domainsOf(l) {
			counts[domain]++
		}
	}
	var domains []string
	for domain, n := range counts {
		if n >= minDomain {
			domains = append(domains, domain)
		}
	}
	if len(domains) == 0 || len(domains) > grant.MaxValues {
		return nil
	}
	slices.Sort(domains)
	a := &argument{matcher: grant.Matcher{Kind: grant.Domain, Values: quoteAll(domains)}}
	a.find = func(l leaf) string {
		of := domainsOf(l)
		if of == nil || slices.ContainsFunc(of, func(domain string) bool { return !slices.Contains(domains, domain) }) {
			return unknown
		}
		return strings.Join(of, " ")
	}
	a.features = presentFeatures(values, a.find)
	return a
}

func quoteAll(texts []string) []json.RawMessage {
	quoted := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		quoted[i] = json.RawMessage(rawjson.AppendString(nil, text))
	}
	return quoted
}

// Limits of folders.
const (
	minFolder  = 5 // approved paths below one
	maxFolders = 10
)

// readFolders allows paths below the deepest folders with several approved paths each.
func readFolders(calls []*decided, values []leaf, recent time.Time) *argument {
	root := &folder{name: "/"}
	for n, l := range values {
		if below, err := condition.IsWithin(l.words, "/"); err != nil || !below {
			continue // it is not allowed
		}
		at := root
		at.last = calls[n].DecidedAt
		for name := range strings.SplitSeq(strings.TrimPrefix(path.Dir(path.Clean(l.words)), "/"), "/") {
			at = at.child(name)
			at.count++
			if at.last.Before(calls[n].DecidedAt) {
				at.last = calls[n].DecidedAt
			}
		}
	}
	folders := root.collect(nil, recent, 0)
	if len(folders) == 0 || len(folders) > maxFolders {
		return nil
	}
	a := &argument{matcher: grant.Matcher{Kind: grant.PathBelow, Values: quoteAll(folders)}}
	a.find = func(l leaf) string {
		for _, folder := range folders {
			if below, err := condition.IsWithin(l.words, folder); l.isText && err == nil && below {
				return folder
			}
		}
		return unknown
	}
	a.features = presentFeatures(values, a.find)
	return a
}

// folder is a folder of approved paths.
type folder struct {
	name     string
	count    int // of paths below it
	last     time.Time
	children []*folder
}

func (f *folder) child(name string) *folder {
	for _, c := range f.children {
		if c.name == path.Join(f.name, name) {
			return c
		}
	}
	c := &folder{name: path.Join(f.name, name)}
	f.children = append(f.children, c)
	return c
}

// numbered matches names of folders that come and go, such as days.
var numbered = regexp.MustCompile(`^[0-9_.-]+$`)

// minDepth is the depth of the highest folder that a grant may allow: /srv/www, but not /srv.
const minDepth = 2

// collect adds the deepest folders below f of which each has enough paths.
func (f *folder) collect(found []string, recent time.Time, depth int) []string {
	below, goOn := 0, len(f.children) > 0
	for _, c := range f.children {
		below += c.count
		goOn = goOn && c.count >= minFolder && (len(f.children) == 1 || !numbered.MatchString(path.Base(c.name)))
	}
	if depth < minDepth {
		goOn = true
	}
	if goOn = goOn && (depth < minDepth || below == f.count) && len(f.children) <= maxFolders; goOn {
		for _, c := range f.children {
			if c.count >= minFolder {
				found = c.collect(found, recent, depth+1)
			}
		}
		return found
	}
	if depth < minDepth || f.last.Before(recent) {
		return found
	}
	return append(found, f.name)
}

// readPrefix allows texts with the beginning that all have.
func readPrefix(values []leaf) *argument {
	prefix := values[0].words
	for _, l := range values {
		for !strings.HasPrefix(l.words, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	prefix = strings.ToValidUTF8(prefix, "")
	if len(prefix) < 3 {
		return nil
	}
	return &argument{matcher: grant.Matcher{Kind: grant.Prefix, Values: quoteAll([]string{prefix})}, find: func(l leaf) string {
		if !strings.HasPrefix(l.words, prefix) {
			return unknown
		}
		return ""
	}}
}

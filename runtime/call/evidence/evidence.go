// Package evidence compares the arguments of a call with those of approved calls of the same tool. It says for each argument which
// values are usual, and why this one is not. It is deterministic and knows no database: package call stores the facts of approved
// calls and reads them back.
//
// Secrets are never part of facts: the caller names their paths.
package evidence

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/holdpoint/holdpoint/internal/lookalike"
)

// Enough is the number of approved calls that make a history. With fewer there is no verdict.
const Enough = 3

// Verdict is the result for one argument.
type Verdict string

// The verdicts.
const (
	Usual     Verdict = "usual"
	Unusual   Verdict = "unusual"
	NoHistory Verdict = "no_history" // fewer than [Enough] approved calls
	Hidden    Verdict = "hidden"     // a secret
)

// Reason says why an argument is unusual.
type Reason string

// The reasons.
const (
	NewArgument Reason = "new_argument" // no approved call had it
	NewValue    Reason = "new_value"    // the approved calls share a few values, and this is none of them
	OtherType   Reason = "other_type"   // such as a string where approved calls had numbers
	AboveRange  Reason = "above_range"
	BelowRange  Reason = "below_range"
	NewCurrency Reason = "new_currency" // of an amount
	NewDomain   Reason = "new_domain"   // of an e-mail address or URL
	NewPlace    Reason = "new_place"    // a path outside the folders of approved calls
	Longer      Reason = "longer"       // more than ten times as long as the longest one
	LooksLike   Reason = "looks_like"   // nearly the same as a usual value, which [Entry.Nearest] has
)

// AllReasons returns all reasons.
func AllReasons() []Reason {
	return []Reason{NewArgument, NewValue, OtherType, AboveRange, BelowRange, NewCurrency, NewDomain, NewPlace, Longer, LooksLike}
}

// Entry is the evidence about one argument: a scalar, or an empty object or list.
type Entry struct {
	Path    string // JSON Pointer (RFC 6901)
	Verdict Verdict
	Reasons []Reason

	Calls   int      // approved calls that were compared
	Having  int      // of them, calls with this argument; elements of a list share one history
	Same    int      // of them, calls with this very value
	Common  []string // the most frequent values, at most three; none if each call had its own, and not an amount without a range
	Range   *Range   // of amounts: numbers, and texts such as "EUR 1,284.50"; nil: not all values are amounts, or each may be two
	Domains []string // the known domains, if the value has one; at most three
	// Nearest is a usual value, or the domain of one, that Against could be mistaken for: the value, or its domain.
	Nearest, Against string

	Last *Last // the value of the last approved call to the same target, if it differs and this one is not usual; otherwise nil
}

// Range describes the amounts of approved calls in one currency: that of the value, or else the most frequent one.
type Range struct {
	Min, Median, Max float64
	Currency         string // empty: they have none, or count its smallest unit
	// Times is the value as a multiple of the median, if the median is positive and has the same currency; otherwise 0.
	Times float64
}

// Call is an approved call.
type Call struct {
	Facts Facts
	At    time.Time // when it was sent
}

// History has the values of approved calls. Several goroutines may use it.
type History struct {
	calls  []Call
	places map[string]*past // by path

	mu      sync.Mutex
	targets map[string]map[string]int // see [History.indexTargets]; by path
}

// NewHistory returns the history of approved calls, the newest first.
func NewHistory(calls []Call) *History {
	return &History{calls: calls, places: indexHistory(calls)}
}

// IsEnough reports whether there are enough calls for a verdict.
func (h *History) IsEnough() bool { return len(h.calls) >= Enough }

// Judge returns the evidence about the arguments of a call, in their order. hidden has the pointers of secrets.
func (h *History) Judge(arguments []byte, hidden func(pointer string) bool) []Entry {
	leaves := readLeaves(arguments, maxLeaves, hidden)
	entries := h.judgeLeaves(leaves, hidden)
	if last, target := h.findLast(leaves, hidden); last != nil {
		for i, l := range leaves {
			entries[i].addLast(l, last, target)
		}
	}
	return entries
}

// CountUnusual returns the number of unusual arguments of a call.
func (h *History) CountUnusual(arguments []byte, hidden func(pointer string) bool) int {
	return CountUnusual(h.judgeLeaves(readLeaves(arguments, maxLeaves, hidden), hidden))
}

func (h *History) judgeLeaves(leaves []leaf, hidden func(pointer string) bool) []Entry {
	entries := make([]Entry, len(leaves))
	for i, l := range leaves {
		entries[i] = Entry{Path: l.pointer, Calls: len(h.calls), Verdict: NoHistory}
		switch {
		case hidden(l.pointer):
			entries[i].Verdict = Hidden
		case h.IsEnough():
			entries[i].judgeFact(l.Fact, h.places[l.Path])
		}
	}
	return entries
}

// CountUnusual returns the number of unusual entries.
func CountUnusual(entries []Entry) int {
	n := 0
	for i := range entries {
		if entries[i].Verdict == Unusual {
			n++
		}
	}
	return n
}

// past has the values that approved calls had in one place.
type past struct {
	calls   int            // that had a value there
	values  map[key]int    // calls with each value
	counts  map[string]int // calls with each text
	texts   []string       // different texts, the most frequent first
	kinds   string
	domain  map[string]bool
	folder  map[string]bool
	amounts map[string][]amount // by unit, see [past.readAmounts]; none in a unit whose amounts may all be two
	words   bool                // there are texts that are no amounts
	marks   string              // the decimal marks of amounts that show them
	unclear []Fact              // amounts that may be two
	longest int
}

func indexHistory(history []Call) map[string]*past {
	index := map[string]*past{}
	for _, c := range history {
		seen := map[string]bool{}
		for _, f := range c.Facts {
			p := index[f.Path]
			if p == nil {
				p = &past{
					values: map[key]int{}, counts: map[string]int{}, domain: map[string]bool{}, folder: map[string]bool{}, amounts: map[string][]amount{},
				}
				index[f.Path] = p
			}
			if !seen[f.Path] {
				seen[f.Path] = true
				p.calls++
			}
			p.addFact(f)
		}
	}
	for _, p := range index {
		for _, f := range p.unclear {
			unit, amounts := p.readAmounts(f)
			if len(amounts) > 1 {
				amounts = nil // the unit is known, but not the range
			}
			p.amounts[unit] = append(p.amounts[unit], amounts...)
		}
		for _, amounts := range p.amounts {
			slices.SortFunc(amounts, compareAmounts)
		}
		slices.SortStableFunc(p.texts, func(a, b string) int { return p.counts[b] - p.counts[a] })
	}
	return index
}

func (p *past) addFact(f Fact) {
	p.values[f.historyKey()]++
	if !strings.ContainsRune(p.kinds, rune(f.Kind)) {
		p.kinds += string(f.Kind)
	}
	p.longest = max(p.longest, f.countCharacters())
	unit, amounts, mark := f.readAmounts()
	switch len(amounts) {
	case 0:
	case 1:
		p.amounts[unit] = append(p.amounts[unit], amounts[0])
		if !strings.Contains(p.marks, mark) {
			p.marks += mark
		}
	default:
		p.unclear = append(p.unclear, f)
	}
	if f.Kind == text {
		if p.counts[f.Value]++; p.counts[f.Value] == 1 {
			p.texts = append(p.texts, f.Value)
		}
		p.words = p.words || len(amounts) == 0
		if d := domainOf(f.Value); d != "" {
			p.domain[d] = true
		}
		for folder := folderOf(f.Value); folder != ""; folder = folderOf(folder) {
			p.folder[folder] = true
		}
	}
}

// readAmounts returns the amounts that a fact may be beside those of approved calls, and their unit. A separator is no decimal mark if all
// approved calls use the other one: after "$1,284.50", "$1,300" has no decimals.
func (p *past) readAmounts(f Fact) (unit string, amounts []amount) {
	unit, amounts, _ = f.readAmounts()
	if len(amounts) == 2 && len(p.marks) == 1 && !strings.Contains(f.Value, p.marks) {
		amounts = amounts[:1]
	}
	return unit, amounts
}

// hasManyValues reports whether approved calls had so many different values that a new one says nothing.
func (p *past) hasManyValues() bool { return 2*len(p.values) > p.calls+1 }

func (e *Entry) judgeFact(f Fact, p *past) {
	e.Verdict = Usual
	if p == nil {
		e.addReason(NewArgument)
		return
	}
	e.Having, e.Same = p.calls, p.values[f.historyKey()]
	unit, amounts := p.readAmounts(f)
	hasAmounts := len(p.amounts) > 0 && (!p.words || f.Kind == number)
	if hasAmounts {
		e.Range = p.rangeFor(unit, amounts)
	}
	if !p.hasManyValues() || hasAmounts && e.Range == nil {
		e.Common = p.texts[:min(3, len(p.texts))]
	}
	if e.Same > 0 {
		return
	}
	if !strings.ContainsRune(p.kinds, rune(f.Kind)) {
		e.addReason(OtherType)
		return
	}
	switch {
	case hasAmounts && len(amounts) > 0:
		e.judgeAmounts(amounts, p, unit)
	case hasAmounts && f.Kind != other:
		e.addReason(OtherType)
		if e.Nearest, e.Against = p.findNearest(f.Value); e.Nearest != "" {
			e.addReason(LooksLike)
		}
	case f.Kind == text:
		e.judgeText(f, p)
	default:
		if !p.hasManyValues() {
			e.addReason(NewValue)
		}
	}
}

func (e *Entry) addReason(r Reason) { e.Verdict, e.Reasons = Unusual, append(e.Reasons, r) }

// judgeAmounts judges a value that may be any of the amounts.
func (e *Entry) judgeAmounts(amounts []amount, p *past, unit string) {
	usual, isKnown := p.amounts[unit]
	switch {
	case !isKnown:
		e.addReason(NewCurrency)
	case len(usual) == 0:
		e.addReason(NewValue)
	case slices.ContainsFunc(amounts, func(a amount) bool { return compareAmounts(a, usual[len(usual)-1]) > 0 }):
		e.addReason(AboveRange)
	case slices.ContainsFunc(amounts, func(a amount) bool { return compareAmounts(a, usual[0]) < 0 }):
		e.addReason(BelowRange)
	}
}

func (e *Entry) judgeText(f Fact, p *past) {
	if e.Nearest, e.Against = p.findNearest(f.Value); e.Nearest != "" {
		e.addReason(LooksLike)
		return
	}
	domain, folder := domainOf(f.Value), folderOf(f.Value)
	switch {
	case domain != "" && len(p.domain) > 0:
		e.Domains = p.listDomains()
		if !p.domain[domain] {
			e.addReason(NewDomain)
		}
	case folder != "" && len(p.folder) > 0:
		if !p.folder[folder] {
			e.addReason(NewPlace)
		}
	case !p.hasManyValues():
		e.addReason(NewValue)
	}
	if f.countCharacters() > 10*max(p.longest, 20) {
		e.addReason(Longer)
	}
}

func (p *past) listDomains() []string {
	list := make([]string, 0, len(p.domain))
	for d := range p.domain {
		list = append(list, d)
	}
	slices.Sort(list)
	return list[:min(3, len(list))]
}

// rangeFor returns the range for a value that may be any of the amounts, or is none. It is nil if there are none to compare it with.
func (p *past) rangeFor(unit string, amounts []amount) *Range {
	usual, isKnown := p.amounts[unit]
	isComparable := isKnown && len(amounts) > 0
	if !isComparable {
		for _, one := range slices.Sorted(maps.Keys(p.amounts)) {
			if len(p.amounts[one]) > len(usual) {
				unit, usual = one, p.amounts[one]
			}
		}
	}
	if len(usual) == 0 {
		return nil
	}
	r := &Range{Currency: unit, Min: usual[0].rounded, Median: findMedian(usual), Max: usual[len(usual)-1].rounded}
	if strings.HasSuffix(unit, smallest) {
		r.Currency = ""
	}
	if isComparable && r.Median > 0 {
		if times := math.Round(10*(amounts[0].rounded/r.Median)) / 10; !math.IsInf(times, 0) {
			r.Times = times
		}
	}
	return r
}

// mostCompared bounds the values that a value is compared with.
const mostCompared = 200

// findNearest returns a usual text that a text could be mistaken for, or such a domain, and the text or its domain.
func (p *past) findNearest(value string) (near, part string) {
	for _, known := range p.texts[:min(mostCompared, len(p.texts))] {
		if lookalike.IsNear(value, known) || !p.hasManyValues() && lookalike.IsSwapped(value, known) {
			return known, value
		}
	}
	domain := domainOf(value)
	if domain == "" || p.domain[domain] {
		return "", ""
	}
	for _, known := range p.listDomains() {
		if lookalike.IsNear(domain, known) {
			return known, domain
		}
	}
	return "", ""
}

// domainOf returns the registrable domain of an e-mail address or of a URL with a host, or "".
func domainOf(value string) string {
	host := ""
	if _, after, ok := strings.Cut(value, "://"); ok {
		host, _, _ = strings.Cut(after, "/")
		host = host[strings.LastIndexByte(host, '@')+1:]
		host, _, _ = strings.Cut(host, ":")
	} else if at := strings.LastIndexByte(value, '@'); at > 0 && !strings.ContainsAny(value, " \n\t,;") {
		host = value[at+1:]
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || strings.ContainsAny(host, " \n\t,;<>\"") {
		return ""
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}

// folderOf returns the folder of a path, or "" if there is none but the root.
func folderOf(value string) string {
	if strings.Contains(value, "://") || strings.ContainsAny(value, " \n\t") {
		return ""
	}
	at := strings.LastIndexByte(strings.TrimSuffix(value, "/"), '/')
	if at <= 0 {
		return ""
	}
	return value[:at]
}

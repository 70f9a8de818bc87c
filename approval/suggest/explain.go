package suggest

import "github.com/google/uuid"

// minOwn is the number of approved calls from which a person's calls alone explain a rejection.
const minOwn = 12

// minExpected is how often two values would have been approved together by chance, if their never being so is to explain a rejection.
const minExpected = 3

// profile is what is known of the arguments of approved calls.
type profile struct {
	calls     []*decided
	arguments map[string]*known // by pointer
	pairs     map[[2]string]map[[2]string]int
}

// known is an argument in approved calls.
type known struct {
	*argument // nil: nothing can be said of its values

	features []string // of each call of the profile; "" if it has none
	counts   map[string]int
}

func (g *group) readProfiles() {
	g.all, g.own = newProfile(g.approved), map[uuid.UUID]*profile{}
	byPerson := map[uuid.UUID][]*decided{}
	for _, d := range g.approved {
		byPerson[d.PrincipalID] = append(byPerson[d.PrincipalID], d)
	}
	for person, calls := range byPerson {
		if len(calls) >= minOwn {
			g.own[person] = newProfile(calls)
		}
	}
}

func newProfile(calls []*decided) *profile {
	p := &profile{calls: calls, arguments: map[string]*known{}, pairs: map[[2]string]map[[2]string]int{}}
	type column struct {
		of     []*decided
		at     []int
		values []leaf
	}
	columns := map[string]*column{}
	for n, d := range calls {
		for _, l := range d.leaves {
			c := columns[l.Argument]
			if c == nil {
				c = &column{}
				columns[l.Argument] = c
			}
			c.of, c.at, c.values = append(c.of, d), append(c.at, n), append(c.values, l)
		}
	}
	for pointer, c := range columns {
		k := &known{argument: describe(c.of, c.values), features: make([]string, len(calls)), counts: map[string]int{}}
		if k.argument != nil {
			for i, l := range c.values {
				f := k.featureOf(l)
				k.features[c.at[i]] = f
				k.counts[f]++
			}
		}
		p.arguments[pointer] = k
	}
	return p
}

// explains reports whether the arguments of a refused call explain why: one has a value that was never approved, or two that were never approved
// together although both are frequent.
func (g *group) explains(d *decided) bool {
	if own := g.own[d.PrincipalID]; own != nil {
		d.own = own.isNew(d)
	}
	return d.own || g.all.isNew(d)
}

// isNew reports whether a call has something that none of the approved ones has.
func (p *profile) isNew(d *decided) bool {
	type present struct {
		pointer, feature string
		*known
	}
	var found []present
	for _, l := range d.leaves {
		k := p.arguments[l.Argument]
		if k == nil {
			return true
		}
		if k.argument == nil {
			continue
		}
		f := k.featureOf(l)
		if f == unknown {
			return true
		}
		if len(k.argument.features) > 1 {
			found = append(found, present{l.Argument, f, k})
		}
	}
	for i, a := range found {
		for _, b := range found[:i] {
			together := p.countPairs(a.pointer, b.pointer)
			if together[[2]string{a.feature, b.feature}] == 0 && a.counts[a.feature]*b.counts[b.feature] >= minExpected*len(p.calls) {
				return true
			}
		}
	}
	return false
}

// countPairs counts the values that two arguments had together.
func (p *profile) countPairs(x, y string) map[[2]string]int {
	key := [2]string{x, y}
	if p.pairs[key] == nil {
		together := map[[2]string]int{}
		a, b := p.arguments[x].features, p.arguments[y].features
		for n := range p.calls {
			together[[2]string{a[n], b[n]}]++
		}
		p.pairs[key] = together
	}
	return p.pairs[key]
}

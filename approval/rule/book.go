package rule

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Book is the set of rules and policies in force. They never change.
type Book struct {
	Revision int64 // of the last change of any rule or policy; 0: there was none
	Rules    []Rule
	Policies map[string]policy.Policy // by name
	programs *Programs

	mu       sync.RWMutex
	prepared map[preparedKey]*Prepared
	held     int // conditions of prepared
}

// preparedKey is what the rules about a call depend on.
type preparedKey struct {
	of  Subject
	pin [sha256.Size]byte
}

// NewBook makes a book of rules and policies.
func NewBook(revision int64, rules []Rule, policies map[string]policy.Policy, programs *Programs) *Book {
	return &Book{Revision: revision, Rules: rules, Policies: policies, programs: programs}
}

// Find returns the rules that are about calls of a subject, without those that are off.
func (b *Book) Find(of Subject) []*Rule {
	var found []*Rule
	for i := range b.Rules {
		if r := &b.Rules[i]; r.Mode != Off && r.Covers(of) {
			found = append(found, r)
		}
	}
	return found
}

// maxFailure bounds [Applied.Failure], in bytes.
const maxFailure = 500

// Schema is the input schema of a tool.
type Schema struct {
	Pin  [sha256.Size]byte // of the tool's definition
	JSON json.RawMessage
}

// Prepared are rules with their conditions, compiled for one tool.
type Prepared struct {
	rules    []*Rule
	compiled []compiled // of each rule; the zero value without a condition
}

// PrepareFor returns the rules about the calls of a subject, prepared for its tool. It remembers them: finding 200 rules and their programs takes longer
// than evaluating them.
func (b *Book) PrepareFor(ctx context.Context, of Subject, schema Schema) *Prepared {
	key := preparedKey{of, schema.Pin}
	b.mu.RLock()
	known := b.prepared[key]
	b.mu.RUnlock()
	if known != nil {
		return known
	}
	made := b.Prepare(ctx, b.Find(of), schema)
	if slices.ContainsFunc(made.compiled, func(c compiled) bool { return c.interrupted }) {
		return made
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held += len(made.rules) + 1; b.prepared == nil || b.held > maxPrograms {
		b.prepared, b.held = map[preparedKey]*Prepared{}, len(made.rules)+1
	}
	b.prepared[key] = made
	return made
}

// IsEmpty reports whether no rule is about the calls.
func (p *Prepared) IsEmpty() bool { return len(p.rules) == 0 }

// Prepare compiles the conditions of rules for a tool, or takes them from the cache.
func (b *Book) Prepare(ctx context.Context, rules []*Rule, schema Schema) *Prepared {
	p := &Prepared{rules, make([]compiled, len(rules))}
	for i, r := range rules {
		if r.When != "" {
			p.compiled[i] = b.programs.compile(ctx, r, schema)
		}
	}
	return p
}

// Memory has the answers to what conditions ask about earlier calls, by the name of the rule.
type Memory map[string]condition.Answers

// Ask is a rule whose condition has no answer for a call without knowing earlier calls.
type Ask struct {
	Rule    *Rule
	Program *condition.Program
}

// FindAsks returns the rules whose answer for a call of the tool depends on earlier calls. A condition that is true or false whatever they
// were, such as one whose other part is false, is none of them.
func (p *Prepared) FindAsks(ctx context.Context, in *condition.Input) []Ask {
	var asks []Ask
	var call *condition.Activation
	for i, r := range p.rules {
		program := p.compiled[i].program
		if program == nil || len(program.Queries()) == 0 {
			continue
		}
		if call == nil {
			call = condition.NewActivation(in)
		}
		if _, err := program.Match(ctx, call, nil); err != nil {
			asks = append(asks, Ask{r, program})
		}
	}
	return asks
}

// Apply returns those of the rules that match a call of the tool, and those that failed, in their order. A condition that needs an answer that
// memory does not have fails.
func (p *Prepared) Apply(ctx context.Context, in *condition.Input, memory Memory) []Applied {
	var applied []Applied
	var call *condition.Activation // decoded for all conditions
	for i, r := range p.rules {
		failure := ""
		if r.When != "" {
			if call == nil {
				call = condition.NewActivation(in)
			}
			holds, err := false, p.compiled[i].err
			if err == nil {
				holds, err = p.compiled[i].program.Match(ctx, call, memory[r.Name])
			}
			switch {
			case err != nil:
				failure = plain.Storable(err.Error(), maxFailure)
			case !holds:
				continue
			}
		}
		applied = append(applied, Applied{
			Name: r.Name, Revision: r.Revision, Effect: r.Effect, Mode: r.Mode, message: r.Message, highRisk: r.HighRisk, policy: r.Policy, Grants: r.Grants,
			Failure: failure,
		})
	}
	return applied
}

// ReadsTime reports whether a condition reads the time.
func (p *Prepared) ReadsTime() bool {
	return slices.ContainsFunc(p.compiled, func(c compiled) bool { return c.time })
}

// ReadsCircumstances reports whether a condition reads the principal or the time.
func (p *Prepared) ReadsCircumstances() bool {
	return slices.ContainsFunc(p.compiled, func(c compiled) bool { return c.time || c.principal })
}

// Programs caches compiled conditions. A rule's revision is no key: a database that lost commits gives it to another rule.
type Programs struct {
	programs *registry.Memory[programKey, compiled]
	schemas  *registry.Memory[[sha256.Size]byte, *condition.Schema]
	misfits  *registry.Memory[programKey, string]
}

// Limits of the caches, in entries.
const (
	maxPrograms = 5000
	maxSchemas  = 1000
	maxMisfits  = 200_000
)

type programKey struct {
	when string
	pin  [sha256.Size]byte
}

// compiled is a program, or the reason why there is none.
type compiled struct {
	program         *condition.Program
	principal, time bool // whether it reads them
	err             error
	interrupted     bool // nobody knows whether there is a program
}

// NewPrograms makes an empty cache. now expires nothing.
func NewPrograms(now func() time.Time) *Programs {
	return &Programs{
		registry.NewMemory[programKey](registry.Config[compiled]{Now: now, MaxSize: maxPrograms}),
		registry.NewMemory[[sha256.Size]byte](registry.Config[*condition.Schema]{Now: now, MaxSize: maxSchemas}),
		registry.NewMemory[programKey](registry.Config[string]{Now: now, MaxSize: maxMisfits}),
	}
}

// Close waits for compilations.
func (p *Programs) Close() {
	p.programs.Close()
	p.schemas.Close()
	p.misfits.Close()
}

// FindMisfit returns what is wrong with a condition for a tool, or "". It keeps no program, because it is asked about all tools at once.
func (p *Programs) FindMisfit(ctx context.Context, when string, schema Schema) (string, error) {
	return p.misfits.Get(ctx, programKey{when, schema.Pin}, func(ctx context.Context) (string, error) {
		types, err := p.readSchema(ctx, schema)
		if err != nil {
			return "", err
		}
		if _, err = types.Compile(when); err != nil {
			return err.Error(), nil //nolint:nilerr // the error is the answer
		}
		return "", nil
	})
}

func (p *Programs) readSchema(ctx context.Context, schema Schema) (*condition.Schema, error) {
	return p.schemas.Get(ctx, schema.Pin, func(context.Context) (*condition.Schema, error) { return condition.ReadSchema(schema.JSON) })
}

func (p *Programs) compile(ctx context.Context, r *Rule, schema Schema) compiled {
	c, err := p.programs.Get(ctx, programKey{r.When, schema.Pin}, func(ctx context.Context) (c compiled, _ error) {
		types, err := p.readSchema(ctx, schema)
		if err == nil {
			c.program, err = types.Compile(r.When)
		}
		if c.err = err; err == nil {
			for _, path := range c.program.References().Fields {
				variable, _, _ := strings.Cut(path, ".")
				c.time = c.time || variable == "now"
				c.principal = c.principal || variable == "principal"
			}
		}
		return c, nil
	})
	if err != nil {
		c.err, c.interrupted = err, true
	}
	return c
}

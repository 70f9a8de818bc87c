package rule

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Book is the set of rules in force. It never changes.
type Book struct {
	Revision int64 // of the last change of any rule; 0: there was none
	Rules    []Rule
	programs *Programs
}

// NewBook makes a book of rules.
func NewBook(revision int64, rules []Rule, programs *Programs) *Book {
	return &Book{Revision: revision, Rules: rules, programs: programs}
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

// Apply returns those of the rules that match a call of a tool, and those that failed, in their order.
func (b *Book) Apply(ctx context.Context, rules []*Rule, schema Schema, in *condition.Input) []Applied {
	var applied []Applied
	for _, r := range rules {
		a := Applied{Name: r.Name, Revision: r.Revision, Effect: r.Effect, Mode: r.Mode, message: r.Message, highRisk: r.HighRisk}
		if r.When != "" {
			program, err := b.programs.compile(ctx, r, schema)
			var holds bool
			if err == nil {
				holds, err = program.Match(ctx, in)
			}
			switch {
			case err != nil:
				a.Failure = plain.Storable(err.Error(), maxFailure)
			case !holds:
				continue
			}
		}
		applied = append(applied, a)
	}
	return applied
}

// Needs returns what the conditions of rules read besides the call itself.
func (b *Book) Needs(ctx context.Context, rules []*Rule, schema Schema) condition.Needs {
	var needs condition.Needs
	for _, r := range rules {
		if r.When == "" {
			continue
		}
		if program, err := b.programs.compile(ctx, r, schema); err == nil {
			needs = needs.With(program.Needs())
		}
	}
	return needs
}

// Programs caches compiled conditions by the rule's revision and the tool's pin, which never mean anything else.
type Programs struct {
	memory *registry.Memory[programKey, compiled]
}

type programKey struct {
	revision int64
	pin      [sha256.Size]byte
}

// compiled is a program, or the reason why there is none.
type compiled struct {
	program *condition.Program
	err     error
}

// NewPrograms makes an empty cache. now expires nothing.
func NewPrograms(now func() time.Time) *Programs {
	return &Programs{registry.NewMemory[programKey](registry.Config[compiled]{Now: now})}
}

// Close waits for compilations.
func (p *Programs) Close() { p.memory.Close() }

func (p *Programs) compile(ctx context.Context, r *Rule, schema Schema) (*condition.Program, error) {
	c, err := p.memory.Get(ctx, programKey{r.Revision, schema.Pin}, func(context.Context) (compiled, error) {
		program, err := condition.Compile(r.When, schema.JSON)
		return compiled{program, err}, nil
	})
	if err != nil {
		return nil, err
	}
	return c.program, c.err
}

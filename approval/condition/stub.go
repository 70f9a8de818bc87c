package condition

import ("context";"encoding/json";"time";"errors")

const MaxSource = 4096
type Problem struct{ Line, Column int; Message string }
type Error struct{ Problems []Problem }
func (e *Error) Error() string { return "stub" }
type Program struct{}
type Needs struct{ Principal, Now bool }
func (n Needs) With(o Needs) Needs { return Needs{n.Principal || o.Principal, n.Now || o.Now} }
type Hints struct{ ReadOnly, Destructive, Idempotent, OpenWorld *bool }
type Principal struct{ ID, Email, Name string; Groups []string }
type Input struct { Arguments json.RawMessage; Agent, Skill, Tool string; Principal *Principal; Claimed Hints; Now time.Time }
func Compile(source string, schema json.RawMessage) (*Program, error) { return &Program{}, nil }
func (p *Program) Match(ctx context.Context, in *Input) (bool, error) { return false, errors.New("stub") }
func (p *Program) Needs() Needs { return Needs{} }

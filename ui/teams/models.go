package teams

import (
	"time"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Teams are the parts of the page.
type Teams struct {
	Notice      *view.Notice
	Operates    bool // the reader is an operator
	Away        []Absence
	Delegations []Delegation
	List        []Team
	Own         []string      // the reader's teams
	Reviewers   []view.Option // whom forms can name
	Form        Form
}

// Absence is a time in which a person is away. Names are from outside.
type Absence struct {
	Person     string
	Substitute string // empty: none
	Starts     time.Time
	Ends       time.Time
	End        string // URL of the form; empty: the reader may not end it
}

// Delegation makes a person a member of a team until a time.
type Delegation struct {
	Team, Person, By string
	Ends             time.Time
	End              string // URL of the form; empty: the reader may not end it
}

// Team is a team with its members at this moment.
type Team struct {
	Name     string
	Members  []Member
	OnCall   []OnCall
	Schedule *Schedule // nil: none
}

// Member is a way in which a person is a member.
type Member struct {
	Name  string
	Way   identity.Way
	For   string // whose place the person takes; empty: their own
	Until *time.Time
}

func (m *Member) isDelegate() bool   { return m.Way == identity.ByDelegation && m.Until != nil }
func (m *Member) isSubstitute() bool { return m.Way == identity.BySubstitution && m.Until != nil }
func (m *Member) isOnCall() bool     { return m.Way == identity.ByOnCall }

// OnCall is a person whom the calendar names now.
type OnCall struct {
	Who     string
	Until   time.Time
	Unknown bool // Who is a text of the calendar that names nobody who is known
}

// Schedule is a calendar.
type Schedule struct {
	State  view.Badge
	Since  *time.Time // it fails since then; nil: it does not
	Error  string
	Facts  []view.Fact
	Fetch  string // URLs of forms
	Delete string
}

// FormKind is one of the forms of the page.
type FormKind string

// The forms.
const (
	FormAbsence    FormKind = "absence"
	FormDelegation FormKind = "delegation"
	FormSchedule   FormKind = "schedule"
)

// Form has the values of a form that was refused.
type Form struct {
	Kind                                  FormKind
	Person, Substitute, From, Until, Team string
	Field                                 string       // the invalid field
	Error                                 text.Message // its problem
}

// of returns the values if the form is of a kind.
func (f Form) of(kind FormKind) Form {
	if f.Kind != kind {
		return Form{Kind: kind}
	}
	return f
}

// wrong returns the problem of a field.
func (f Form) wrong(field string) text.Message {
	if f.Field == field {
		return f.Error
	}
	return text.Message{}
}

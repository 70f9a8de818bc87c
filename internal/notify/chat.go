package notify

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// chatPayload is a message for Slack and compatible chats. Text is for chats without blocks, and for notifications.
type chatPayload struct {
	Text   string  `json:"text"`
	Blocks []block `json:"blocks"`
}

type block struct {
	Type     string     `json:"type"`
	Text     *blockText `json:"text,omitempty"`
	Elements []element  `json:"elements,omitempty"`
}

type blockText struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji,omitempty"`
}

type element = blockText

// maxListed is how many calls a message lists.
const maxListed = 5

// chatMessage makes a message about pending calls. Names are plain text without effect, and each call has a link to the
// dashboard.
func (s *Service) chatMessage(news []Event) chatPayload {
	var m chatPayload
	var lines []string
	for _, e := range news[:min(maxListed, len(news))] {
		link, kind := s.PublicURL+e.path(), describeKind(e.Kind, listTeams(e.listAsked(), chatText))
		until, localUntil := "", ""
		if !e.Deadline.IsZero() {
			until, localUntil = ", until "+s.formatClock(e.Deadline), " · until "+s.formatLocalClock(e.Deadline)
		}
		lines = append(lines, fmt.Sprintf("%s %s%s: <%s|look at it>", kind, codeSpans(e), until, link))
		m.Blocks = append(m.Blocks,
			block{Type: "section", Text: &blockText{Type: "plain_text", Text: kind + " " + chatText(e.plainLine()), Emoji: new(false)}},
			block{Type: "context", Elements: []element{{Type: "mrkdwn", Text: fmt.Sprintf("<%s|Look at it>%s", link, localUntil)}}},
		)
	}
	if more := len(news) - maxListed; more > 0 {
		text := "1 more call waits"
		if more > 1 {
			text = fmt.Sprintf("%d more calls wait", more)
		}
		text = "<" + s.PublicURL + "/|" + text + ">"
		lines = append(lines, text)
		m.Blocks = append(m.Blocks, block{Type: "section", Text: &blockText{Type: "mrkdwn", Text: text}})
	}
	m.Text = strings.Join(lines, "\n")
	return m
}

func (s *Service) testMessage(w Webhook) chatPayload {
	teams := "every team"
	if w.Team != "" {
		teams = "team " + chatText(w.Team)
	}
	text := fmt.Sprintf("This is a test. Calls of %s that wait for a decision will be announced here by <%s/|Holdpoint>.", teams, s.PublicURL)
	return chatPayload{Text: text, Blocks: []block{{Type: "section", Text: &blockText{Type: "mrkdwn", Text: text}}}}
}

// listTeams returns the names of teams with commas between them.
func listTeams(teams []string, clean func(string) string) string {
	names := make([]string, len(teams))
	for i := range teams {
		names[i] = clean(teams[i])
	}
	return strings.Join(names, ", ")
}

// describeKind begins the line about a call, which asks teams.
func describeKind(kind Kind, teams string) string {
	switch kind {
	case Escalated:
		if teams != "" {
			return "Still undecided, now asking " + teams + ":"
		}
		return "Still undecided:"
	case NoReviewer:
		return "Call waits that no reviewer may decide:"
	case Unmeetable:
		return "Call waits whose policy the present reviewers cannot meet:"
	case Asked:
		return "Question during a call waits:"
	case Planned:
		return "Plan waits:"
	case BrokeGlass:
		return "One person approved alone, please review:"
	case GuardLost:
		return "Guard no longer holds:"
	case Bypassed:
		return "Call ran without a release:"
	case Parked, Decided:
	}
	return "Call waits:"
}

// path returns the page of the call or the plan, or of all guards.
func (e Event) path() string {
	if e.Kind == Planned {
		return "/plans/" + e.CallID.String()
	}
	if e.Kind.isGuard() {
		return "/guards"
	}
	return "/calls/" + e.CallID.String()
}

// plainLine names a call or a plan for plain text.
func (e Event) plainLine() string {
	return e.joinNames(func(name string) string { return plain.Line(name, maxLine) })
}

// joinNames names a call by its skill, tool and agent, a plan by one of its skills and its agent, and a guard by its host, machine and agent.
func (e Event) joinNames(clean func(string) string) string {
	what := clean(e.Skill)
	if e.Kind != Planned {
		what += ": " + clean(e.Tool)
	}
	what += " (" + clean(e.Agent) + ")"
	if e.GateOnly {
		what += ", which Holdpoint does not execute"
	}
	return what
}

// maxLine is larger than any bounded name.
const maxLine = 1000

// codeSpans names a call or a plan in a chat's markup. Each name is a code span, in which chats recognize neither links nor mentions.
func codeSpans(e Event) string { return e.joinNames(codeSpan) }

func codeSpan(name string) string {
	text := strings.ReplaceAll(chatText(name), "`", "'")
	if strings.TrimSpace(text) == "" {
		text = "?"
	}
	return "`" + text + "`"
}

// chatText escapes markup, links and mentions of a chat.
func chatText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "\uFF20", "://", ":\u2215\u2215").Replace(plain.Line(text, maxLine))
}

// dateDistance is how far away a time is shown with its date.
const dateDistance = 12 * time.Hour

func (s *Service) formatClock(t time.Time) string {
	if t.Sub(s.Now()) > dateDistance {
		return t.UTC().Format("2 Jan 15:04 UTC")
	}
	return t.UTC().Format("15:04 UTC")
}

// formatLocalClock formats a time that Slack shows in the reader's time zone.
func (s *Service) formatLocalClock(t time.Time) string {
	form := "{time}"
	if t.Sub(s.Now()) > dateDistance {
		form = "{date_short_pretty} {time}"
	}
	return "<!date^" + strconv.FormatInt(t.Unix(), 10) + "^" + form + "|" + s.formatClock(t) + ">"
}

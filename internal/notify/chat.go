package notify

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// chatMessage is what Slack takes, and what others take who are compatible with it. The text is for those
// that know no blocks, and for notifications.
type chatMessage struct {
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

// listed is how many calls a message tells of one by one.
const listed = 5

// chat tells of calls that wait. Each is a line of plain text, in which nothing that a server calls its tools means
// anything, and a link of this server's.
func (s *Service) chat(news []Event) chatMessage {
	var m chatMessage
	var lines []string
	for _, e := range news[:min(listed, len(news))] {
		link := s.PublicURL + "/calls/" + e.CallID.String()
		lines = append(lines, fmt.Sprintf("%s %s, until %s: <%s|look at it>", said(e.Kind, chatText(e.Team)), spans(e), s.clock(e.Deadline), link))
		m.Blocks = append(m.Blocks,
			block{Type: "section", Text: plainText(said(e.Kind, chatText(e.Team)) + " " + chatText(e.line()))},
			block{Type: "context", Elements: []element{{Type: "mrkdwn", Text: fmt.Sprintf("<%s|Look at it> · until %s", link, s.localClock(e.Deadline))}}},
		)
	}
	if more := len(news) - listed; more > 0 {
		text := fmt.Sprintf("<%s/|%s>", s.PublicURL, moreCalls(more))
		lines = append(lines, text)
		m.Blocks = append(m.Blocks, block{Type: "section", Text: &blockText{Type: "mrkdwn", Text: text}})
	}
	m.Text = strings.Join(lines, "\n")
	return m
}

func (s *Service) testMessage(w Webhook) chatMessage {
	whose := "every team"
	if w.Team != "" {
		whose = "team " + chatText(w.Team)
	}
	text := fmt.Sprintf("This is a test. Calls of %s that wait for a decision will be announced here by <%s/|Holdpoint>.", whose, s.PublicURL)
	return chatMessage{Text: text, Blocks: []block{{Type: "section", Text: &blockText{Type: "mrkdwn", Text: text}}}}
}

// said begins the line about a call.
func said(kind Kind, team string) string {
	switch kind {
	case Escalated:
		if team != "" {
			return "Still undecided, now team " + team + " is asked:"
		}
		return "Still undecided:"
	case NoReviewer:
		return "Call waits that no reviewer may decide:"
	case Asked:
		return "Question during a call waits:"
	case Parked, Decided:
	}
	return "Call waits:"
}

// line names a call where text is taken as it is.
func (e Event) line() string {
	return plain.Line(e.Skill, maxLine) + ": " + plain.Line(e.Tool, maxLine) + " (" + plain.Line(e.Agent, maxLine) + ")"
}

// maxLine is more than is left of a bounded name.
const maxLine = 1000

// spans names a call in a chat's markup, each name in a span of code, in which chats look for neither links
// nor people to call.
func spans(e Event) string {
	return code(e.Skill) + ": " + code(e.Tool) + " (" + code(e.Agent) + ")"
}

func code(name string) string {
	text := strings.ReplaceAll(chatText(name), "`", "'")
	if strings.TrimSpace(text) == "" {
		text = "?"
	}
	return "`" + text + "`"
}

// chatText is text in which a chat finds no markup of its own, no link and nobody to call.
func chatText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "\uFF20", "://", ":\u2215\u2215").Replace(plain.Line(text, maxLine))
}

func plainText(text string) *blockText {
	emoji := false
	return &blockText{Type: "plain_text", Text: text, Emoji: &emoji}
}

// far is how far away a time has its date said with it.
const far = 12 * time.Hour

func (s *Service) clock(t time.Time) string {
	if t.Sub(s.Now()) > far {
		return t.UTC().Format("2 Jan 15:04 UTC")
	}
	return t.UTC().Format("15:04 UTC")
}

// localClock is a time that Slack shows as it is where the reader is.
func (s *Service) localClock(t time.Time) string {
	form := "{time}"
	if t.Sub(s.Now()) > far {
		form = "{date_short_pretty} {time}"
	}
	return "<!date^" + strconv.FormatInt(t.Unix(), 10) + "^" + form + "|" + s.clock(t) + ">"
}

func moreCalls(n int) string {
	if n == 1 {
		return "1 more call waits"
	}
	return fmt.Sprintf("%d more calls wait", n)
}

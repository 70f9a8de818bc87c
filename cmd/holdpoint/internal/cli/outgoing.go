package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

// outgoingView is the very request of a call to an HTTP API.
type outgoingView struct {
	Method  string `json:"method"`
	URL     string `json:"url"`
	Headers []struct {
		Name   string `json:"name"`
		Value  string `json:"value"`
		Secret bool   `json:"secret"`
	} `json:"headers"`
	contentView
}

// contentView is a body.
type contentView struct {
	Text  *string `json:"text"`
	Bytes *string `json:"bytes"`
}

// String shows the request as it goes over the wire, in its order; empty: there is none.
func (o *outgoingView) String() string {
	if o == nil {
		return ""
	}
	var text strings.Builder
	text.WriteString("The request:\n\n" + cell(o.Method+" "+o.URL) + "\n")
	for _, h := range o.Headers {
		value := h.Value
		if h.Secret {
			value = "(secret)"
		}
		text.WriteString(cell(h.Name+": "+value) + "\n")
	}
	text.WriteString(o.contentView.String() + "\n")
	return text.String()
}

// String shows a body after an empty line; empty: there is none.
func (c contentView) String() string {
	switch {
	case c.Text != nil && json.Valid([]byte(*c.Text)):
		return "\n" + Visible(prettyJSON(json.RawMessage(*c.Text))) + "\n"
	case c.Text != nil:
		return "\n" + Visible(*c.Text) + "\n"
	case c.Bytes != nil:
		return "\n(no text; in base64)\n" + cell(*c.Bytes) + "\n"
	}
	return ""
}

type previewView struct {
	Request outgoingView `json:"request"`
	Status  int          `json:"status"`
	Cut     bool         `json:"cut"`
	contentView
}

// showPreview shows what a call would change, as it is now.
func (e *Env) showPreview(cmd *cobra.Command, id string) error {
	text, err := e.get(cmd.Context(), "approvals/"+client.Segment(id)+"/preview", nil)
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(text)
	}
	found, err := decode[previewView](text)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("%s %s answers HTTP %d:", found.Request.Method, found.Request.URL, found.Status)
	tail := ""
	if found.Cut {
		tail = "\n(not all of it was read)\n"
	}
	return write(e.Stdout, cell(head)+"\n"+found.String()+tail)
}

package review

import (
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Native is what the caller of a gate-only call claims about its machine, and what an edit would do there by this claim.
type Native struct {
	Source    text.Message   // whose claims these are
	Directory *hostile.Value // nil: not known
	Leads     []hostile.Value
	File      *hostile.Value // that the call would change; nil: none
	Diff      *hostile.Diff
	Notes     []text.Message
}

// maxLeads is the number of resolved paths that a page shows.
const maxLeads = 10

// presentNative presents the claims of a gate-only call. Nil: there are none.
func presentNative(s *subject, f format, reveal bool) *Native {
	c := &s.call
	claims := c.Binding()
	if claims.Directory == "" && claims.File == nil && len(claims.Paths) == 0 {
		return nil
	}
	limits := hostile.Folded()
	if f.full {
		limits = hostile.Limits{}
	}
	show := func(text string) *hostile.Value { return new(hostile.Fold(text, limits)) }
	n := &Native{Source: text.GateClaimed()}
	if name := present.ExecutedBy(c); name != "" {
		n.Source = text.GateClaimedBy(name)
	}
	if claims.Directory != "" {
		n.Directory = show(claims.Directory)
	}
	for i, path := range claims.Paths {
		if i == maxLeads {
			n.Notes = append(n.Notes, text.GateMorePaths(len(claims.Paths)-maxLeads))
			break
		}
		n.Leads = append(n.Leads, *show(path))
	}
	if s.edited || s.secrets.Count(c.Arguments) > 0 && !reveal { // the difference has the arguments
		return n
	}
	n.addChange(c, claims.File, limits)
	return n
}

// addChange adds what the call would do to the file.
func (n *Native) addChange(c *call.Call, file *call.GateFile, limits hostile.Limits) {
	var content *string
	if file != nil {
		n.File = new(hostile.Fold(file.Path, limits))
		switch {
		case !file.Exists:
			n.Notes, content = append(n.Notes, text.GateNewFile()), new("")
		case file.Text == nil:
			n.Notes = append(n.Notes, text.GateFileNotSent(int(file.Size)))
		default:
			content = file.Text
		}
	}
	change, ok := host.PreviewChange(c.Host, c.Tool, c.Arguments, content)
	if !ok {
		return
	}
	diff, err := hostile.ReadTextDiff(change.Before, change.After, limits)
	if err != nil {
		return
	}
	n.Diff = &diff
	if !change.Whole {
		n.Notes = append(n.Notes, text.GatePartsOnly())
	}
	if change.Absent > 0 {
		n.Notes = append(n.Notes, text.GateAbsent(change.Absent))
	}
	if change.Repeated > 0 {
		n.Notes = append(n.Notes, text.GateRepeated(change.Repeated))
	}
}

package review

import (
	"errors"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// maxRows is the number of values that are shown at first. Most of so many are in tables.
const maxRows = 200

// presentArguments shows the stored bytes in the wanted format.
func presentArguments(s *subject, f format, reveal bool) Arguments {
	c := &s.call
	base := present.CallURL(c.ID)
	a := Arguments{Format: f.view, Full: f.full, Bytes: len(c.Arguments), Held: c.GateOnly, Sent: wasSent(c), Unsent: wasNotSent(c), TextURL: base + "/arguments"}
	a.URL, a.WholeURL, a.FoldURL = f.callURL(base), format{f.view, true}.callURL(base), format{f.view, false}.callURL(base)
	limits := hostile.Folded()
	limits.Fields = maxRows
	if f.full {
		limits = hostile.Limits{Collapse: f.view == FormatFields}
	}
	a.Secrets, a.RevealURL = s.secrets.Count(c.Arguments), base+"/reveal"
	if a.Revealed = reveal; !reveal {
		limits.Secrets = s.secrets
		a.Withheld = a.Secrets > 0 && !s.revealed && !s.edited // the editor shows all of them
	}
	values := typed.RecognizeDocument(c.Arguments)
	a.Alarming = isAlarming(values, s.evidence) || s.isPending() && s.approval.Rule == approval.RuleDefinitionChanged
	shape := f.view
	if shape == FormatFields {
		fields, err := hostile.ReadFields(c.Arguments, limits)
		switch {
		case errors.Is(err, hostile.ErrUnwieldy):
			shape, a.Nested = FormatJSON, true
		case err != nil:
			shape = FormatRaw
		default:
			a.Fields, a.Folded = &fields, fields.Folded
			if s.isPending() {
				dropPartial(&fields)
				a.Card = makeCard(s.place, &fields, s.evidence, values, limits.Secrets.Find(c.Arguments), s.secrets.NamedByAgent(c.Arguments))
			}
		}
	}
	if shape == FormatJSON {
		pretty, err := hostile.ReadPretty(c.Arguments, limits)
		if err != nil {
			shape = FormatRaw
		} else {
			a.Pretty, a.Folded = &pretty, pretty.Folded
		}
	}
	a.Findings = readFindings(c.Arguments)
	a.Alarming = a.Alarming || a.Findings.IsAlarming()
	if shape == FormatRaw {
		raw := hostile.ShowDocument(c.Arguments, limits)
		a.Raw, a.Folded = &raw, raw.Cut != nil
	}
	return a
}

// isAlarming reports whether a value has a red warning: a dangerous form, or the look of a usual value.
func isAlarming(values map[string]typed.Value, entries []evidence.Entry) bool {
	for _, v := range values {
		if slices.ContainsFunc(v.Warnings, func(w typed.Warning) bool { return w.Level() == typed.Danger }) {
			return true
		}
	}
	return slices.ContainsFunc(entries, func(e evidence.Entry) bool { return slices.Contains(e.Reasons, evidence.LooksLike) })
}

// readFindings examines the decoded values, so that escapes hide nothing.
func readFindings(arguments []byte) hostile.Findings {
	limits := hostile.Folded()
	limits.Fields = 0
	if fields, err := hostile.ReadFields(arguments, limits); err == nil {
		return fields.Findings
	}
	if found, err := hostile.Find(arguments); err == nil {
		return found
	}
	return hostile.Fold(string(arguments), limits).Findings()
}

// callURL returns the page of a call with its arguments in this format.
func (f format) callURL(base string) string {
	query := ""
	if f.view != FormatFields {
		query = "view=" + string(f.view)
	}
	if f.full {
		if query != "" {
			query += "&"
		}
		query += "full=1"
	}
	if query != "" {
		query = "?" + query
	}
	return base + query
}

// formatURL returns the page with its arguments in another format.
func formatURL(a Arguments, f Format) string {
	url, query := a.URL, ""
	if at := strings.IndexByte(url, '?'); at >= 0 {
		url = url[:at]
	}
	if f != FormatFields {
		query = "view=" + string(f)
	}
	if a.Full {
		if query != "" {
			query += "&"
		}
		query += "full=1"
	}
	if query == "" {
		return url
	}
	return url + "?" + query
}

package ui

import (
	"errors"

	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// presentArguments shows the stored bytes in the wanted format.
func presentArguments(s *subject, f format, reveal bool) view.Arguments {
	c := &s.call
	base := callURL(c.ID)
	a := view.Arguments{Format: f.view, Full: f.full, Bytes: len(c.Arguments), TextURL: base + "/arguments"}
	a.URL, a.WholeURL, a.FoldURL = f.url(base), format{f.view, true}.url(base), format{f.view, false}.url(base)
	limits := hostile.Folded()
	if f.full {
		limits = hostile.Limits{}
	}
	if a.Revealed = reveal; !reveal {
		limits.Secrets = s.secrets()
		if !s.revealed {
			a.Withheld = s.withheld
		}
	}
	a.Secrets, a.RevealURL = s.secrets().Count(c.Arguments), base+"/reveal"
	shape := f.view
	if shape == view.FormatFields {
		fields, err := hostile.ReadFields(c.Arguments, limits)
		switch {
		case errors.Is(err, hostile.ErrUnwieldy):
			shape, a.Nested = view.FormatJSON, true
		case err != nil:
			shape = view.FormatRaw
		default:
			a.Fields, a.Folded = &fields, fields.Folded
		}
	}
	if shape == view.FormatJSON {
		pretty, err := hostile.ReadPretty(c.Arguments, limits)
		if err != nil {
			shape = view.FormatRaw
		} else {
			a.Pretty, a.Folded = &pretty, pretty.Folded
		}
	}
	a.Findings = findings(c.Arguments)
	if shape == view.FormatRaw {
		raw := hostile.ShowDocument(c.Arguments, limits)
		a.Raw, a.Folded = &raw, raw.Cut != nil
	}
	return a
}

// findings are those of the values that the tool will get: what escapes hide in the
// bytes counts as well.
func findings(arguments []byte) hostile.Findings {
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

// url is the page of a call with its arguments in this format.
func (f format) url(base string) string {
	query := ""
	if f.view != view.FormatFields {
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

package typed

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Address is an e-mail address.
type Address struct {
	Name string // the displayed name, or ""
	Mail string
	Host Host
}

// Domain has the recipients below one registrable domain.
type Domain struct {
	Name      string // the registrable domain, in lower case
	Addresses []string
}

// longAddress is the number of bytes of the longest text that may be an address with a name.
const longAddress = 512

// parseAddress reads "a@b.c" or "Name <a@b.c>".
func parseAddress(text string) (Address, bool) {
	text = strings.TrimSpace(text)
	var a Address
	if len(text) > longAddress || strings.ContainsAny(text, "\n\r") {
		return a, false
	}
	if open := strings.LastIndexByte(text, '<'); open >= 0 && strings.HasSuffix(text, ">") {
		a.Name = strings.Trim(strings.TrimSpace(text[:open]), `"`)
		text = text[open+1 : len(text)-1]
	}
	at := strings.LastIndexByte(text, '@')
	if at <= 0 || at > 64 || !isMailHost(text[at+1:]) || strings.ContainsFunc(text[:at], isOutsideMailbox) {
		return a, false
	}
	a.Mail, a.Host = text, parseHost(text[at+1:])
	return a, true
}

func isOutsideMailbox(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`<>()[],;:\"/@`, r)
}

func isMailHost(host string) bool {
	dot := strings.LastIndexByte(host, '.')
	return dot > 0 && dot < len(host)-1 && len(host) <= 253 && !strings.Contains(host, "..") && !strings.ContainsFunc(host, func(r rune) bool {
		return r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
	})
}

// listWarnings returns the warnings about an address.
func (a Address) listWarnings() []Warning {
	list := a.Host.listWarnings()
	if shown, ok := parseAddress(findAddress(a.Name)); ok && !strings.EqualFold(shown.Mail, a.Mail) {
		list = append(list, newWarning(DisplayedAddress, shown.Mail, a.Mail))
	}
	return list
}

// findAddress returns the word with an @ in a name.
func findAddress(name string) string {
	for word := range strings.FieldsSeq(name) {
		if strings.Contains(word, "@") {
			return strings.Trim(word, `"'()<>[],;:`)
		}
	}
	return ""
}

// recognizeRecipients recognizes one e-mail address, or several.
func (m member) recognizeRecipients(v *Value, text string, _ int) bool {
	if !strings.Contains(text, "@") {
		return false
	}
	if a, ok := parseAddress(text); ok {
		v.Kind, v.Address = Email, &a
		v.Warnings = append(v.Warnings, a.listWarnings()...)
		at := strings.LastIndex(text, a.Mail) + len(a.Mail) - len(a.Host.Text)
		v.Spans = append(v.Spans, Span{ClassPlain, text[:at]})
		v.Spans = append(v.Spans, a.Host.listSpans()...)
		return true
	}
	texts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == '\n' })
	texts = slices.DeleteFunc(texts, func(one string) bool { return strings.TrimSpace(one) == "" })
	domains, warnings, ok := groupRecipients(texts)
	if !ok || len(texts) < 2 {
		return false
	}
	v.Kind, v.Domains = Recipients, domains
	v.Warnings = append(v.Warnings, warnings...)
	return true
}

// groupRecipients groups addresses by registrable domain, the largest group first. It reports false unless all texts are addresses.
func groupRecipients(texts []string) ([]Domain, []Warning, bool) {
	groups := make(map[string]*Domain)
	var warnings []Warning
	for _, text := range texts {
		a, ok := parseAddress(text)
		if !ok {
			return nil, nil, false
		}
		if len(warnings) < maxWarnings {
			warnings = append(warnings, a.listWarnings()...)
		}
		name := strings.ToLower(a.Host.Registrable)
		if groups[name] == nil {
			groups[name] = &Domain{Name: name}
		}
		groups[name].Addresses = append(groups[name].Addresses, a.Mail)
	}
	domains := make([]Domain, 0, len(groups))
	for _, group := range groups {
		domains = append(domains, *group)
	}
	slices.SortFunc(domains, func(a, b Domain) int {
		return cmp.Or(cmp.Compare(len(b.Addresses), len(a.Addresses)), strings.Compare(a.Name, b.Name))
	})
	return domains, warnings, true
}

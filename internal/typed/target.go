package typed

import "strings"

// Target returns the kind and the canonical form of the account, the address or the place that a value names: an IBAN without spaces, an
// e-mail address in lower case, the host and the path of a URL without its query, a path without "..". Values with equal forms name the
// same target. A value that names none returns "".
func (v *Value) Target() (Kind, string) {
	switch v.Kind {
	case IBAN:
		return IBAN, strings.Join(v.IBAN.Groups, "")
	case Email:
		return Email, strings.ToLower(v.Address.Mail)
	case URL:
		if v.Link.Host.Text == "" {
			return Text, ""
		}
		host, path := strings.ToLower(v.Link.Host.Text), v.Link.Path
		if v.Link.Port != "" {
			host += ":" + v.Link.Port
		}
		if v.Link.Resolved != "" {
			path = v.Link.Resolved
		}
		return URL, host + path
	case Path:
		if v.Path.Resolved != "" {
			return Path, v.Path.Resolved
		}
		return Path, v.Text
	case Text, Number, Boolean, Null, Nested, Money, Recipients, Date, Base64, JSON, SQL, Shell, Diff, HTML:
	}
	return Text, ""
}

// NamesSource reports whether a member with this name says where something comes from, such as the sender of a message.
func NamesSource(name string) bool {
	m := member{name: splitName(name)}
	return m.isNamed(sourceWords)
}

// NamesCommand reports whether a member with this name is a command for a shell.
func NamesCommand(name string) bool {
	m := member{name: splitName(name)}
	return m.endsNamed(commandNames)
}

// NamesID reports whether a member with this name identifies something, such as an account or a project.
func NamesID(name string) bool {
	m := member{name: splitName(name)}
	return m.endsNamed(idWords)
}

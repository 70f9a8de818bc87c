package review

import (
	"context"
	"io"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// describeTyped returns notes about a recognized value, and red warnings.
func describeTyped(v *typed.Value) (notes, alarms []templ.Component) {
	if n := describeKind(v); n != nil {
		notes = append(notes, n)
	}
	if v.Partial {
		notes = append(notes, text.TypedPartial())
	}
	for _, w := range v.Warnings {
		if w.Level() == typed.Danger {
			alarms = append(alarms, describeWarning(w))
		} else {
			notes = append(notes, describeWarning(w))
		}
	}
	return notes, alarms
}

// describeKind names the kind of a value, or returns nil if the value needs no name.
func describeKind(v *typed.Value) templ.Component {
	switch v.Kind {
	case typed.Money:
		if v.Money.Minor {
			return text.TypedMoneyMinor(v.Money.Currency, text.Exact(v.Money.Amount))
		}
		return text.TypedMoney(v.Money.Currency, text.Exact(v.Money.Amount))
	case typed.IBAN:
		return text.TypedIBAN(v.IBAN.Country, strings.Join(v.IBAN.Groups, " "))
	case typed.Email:
		return text.TypedMailDomain(strong(v.Address.Host.Registrable))
	case typed.Recipients:
		return describeRecipients(v.Domains)
	case typed.URL:
		if v.Link.Resolved != "" {
			return text.TypedResolves(strong(v.Link.Host.Text + v.Link.Resolved))
		}
		return text.TypedHost(strong(v.Link.Host.Registrable))
	case typed.Path:
		if v.Path.Resolved != "" {
			return text.TypedResolves(strong(v.Path.Resolved))
		}
	case typed.Date:
		return describeDate(v.Date)
	case typed.Base64:
		return describeEncoded(v.Base64)
	case typed.Text:
		switch v.Like {
		case typed.Boolean, typed.Null:
			return text.TypedTextLikeOther(strings.TrimSpace(v.Text))
		default:
		}
	case typed.Number, typed.Boolean, typed.Null, typed.Nested, typed.JSON, typed.SQL, typed.Shell, typed.Diff, typed.HTML:
	}
	return nil
}

// describeDate shows a moment in the reader's zone. A date or a time without a zone stays as it is: in a zone, it would be another one.
func describeDate(d *typed.DateValue) templ.Component {
	switch d.Form {
	case typed.Day:
		return text.Time(d.At, text.FormatWeekdayDate())
	case typed.Local:
		return text.TypedLocalTime(text.Time(d.At, text.FormatWeekdayMinute()))
	default:
		return text.TypedDate(view.Clock(d.At))
	}
}

func describeEncoded(e *typed.Encoded) templ.Component {
	size := text.TypedEncodedUnknown(e.Size)
	if e.Type != "" {
		size = text.TypedEncoded(e.Size, e.Type)
	}
	if e.Text == "" {
		return size
	}
	decoded := e.Text
	for inner := e.Inner; inner != nil && inner.Base64 != nil && inner.Base64.Text != ""; inner = inner.Base64.Inner {
		decoded = inner.Base64.Text
	}
	const most = 500
	if len(decoded) > most {
		decoded = strings.ToValidUTF8(decoded[:most], "") + "…"
	}
	return templ.Join(size, text.Literal(". "), text.TypedDecoded(view.Text(decoded)))
}

// maxDomains is the number of domains of recipients that are named.
const maxDomains = 10

// describeRecipients names the domains, the rarest first, because a foreign address is alone.
func describeRecipients(domains []typed.Domain) templ.Component {
	n := 0
	for _, d := range domains {
		n += len(d.Addresses)
	}
	list := templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		for i := range min(maxDomains, len(domains)) {
			d := domains[len(domains)-1-i]
			if i > 0 {
				if _, err := io.WriteString(w, " · "); err != nil {
					return err
				}
			}
			if err := text.TypedDomainCount(strong(d.Name), len(d.Addresses)).Render(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
	return text.TypedRecipients(n, list)
}

// describeWarning returns the text of a warning.
func describeWarning(w typed.Warning) templ.Component { //nolint:funlen // one case for each code
	arg := func(i int) string {
		if i < len(w.Args) {
			return w.Args[i]
		}
		return ""
	}
	switch w.Code {
	case typed.NumberAsText:
		return text.TypedNumberAsText()
	case typed.IBANInvalid:
		return text.TypedIBANInvalid()
	case typed.Userinfo:
		return text.TypedUserinfo(view.Text(arg(0)), strong(arg(1)))
	case typed.AmbiguousHost:
		return text.TypedAmbiguousHost()
	case typed.NumericHost:
		return text.TypedNumericHost(view.Text(arg(0)), arg(1))
	case typed.IPHost:
		return text.TypedIPHost()
	case typed.PunycodeHost:
		return text.TypedPunycodeHost(view.Text(arg(1)))
	case typed.LookalikeHost:
		return text.TypedLookalikeHost(view.Text(arg(1)))
	case typed.ScriptURL:
		return text.TypedScriptURL(arg(0))
	case typed.DisplayedAddress:
		return text.TypedDisplayedAddress(view.Text(arg(0)), strong(arg(1)))
	case typed.PathTraversal:
		return text.TypedPathTraversal(strong(arg(1)))
	case typed.PathLeavesRoot:
		return text.TypedPathLeavesRoot(strong(arg(1)))
	case typed.HiddenText:
		return text.TypedHiddenText(view.Text(arg(0)))
	case typed.ExecutableComment:
		return text.TypedExecutableComment(view.Text(arg(0)))
	case typed.NoCondition:
		return text.TypedNoCondition(arg(0))
	case typed.AlwaysTrue:
		return text.TypedAlwaysTrue(view.Text(arg(0)))
	case typed.DownloadExecuted:
		return text.TypedDownloadExecuted(arg(0), arg(1))
	case typed.DecodedExecuted:
		return text.TypedDecodedExecuted(arg(0), arg(1))
	case typed.TypeMismatch:
		return text.TypedTypeMismatch(view.Text(arg(0)), arg(1))
	case typed.NestedEncoding:
		return text.TypedNestedEncoding(arg(0))
	case typed.ActiveContent:
		return text.TypedActiveContent(view.Text(arg(0)))
	case typed.KeysDifferInCase:
		return text.TypedKeysDifferInCase(view.Text(arg(0)), view.Text(arg(1)))
	case typed.ItemsDifferInCase:
		return text.TypedItemsDifferInCase(view.Text(arg(0)), view.Text(arg(1)))
	case typed.AmbiguousAmount:
		return text.TypedAmbiguousAmount()
	}
	return text.Message{}
}

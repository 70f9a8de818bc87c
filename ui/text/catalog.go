package text

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"
	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"github.com/holdpoint/holdpoint/ui/text/section"
)

//go:embed */*.yaml
var files embed.FS

// source is the language of the folder that gives the functions.
const source = "en"

// catalog has the texts of one language by key, such as "queue.Waiting".
type catalog struct {
	language         language.Tag
	texts            map[string]entry
	scripts          map[string]map[string]string
	group, decimal   string   // separators of numbers
	months, weekdays []string // January and Sunday first
}

// entry is a text by its plural forms.
type entry struct {
	count string // the argument that selects the form, if there is one
	forms map[plural.Form][]section.Part
}

// catalogs are the catalogs of all languages by folder. A text that a language lacks is English; a test allows none.
var catalogs = sync.OnceValue(func() map[string]*catalog { //nolint:gochecknoglobals // read once
	all, err := readCatalogs(files)
	if err != nil {
		panic(err) // the files are part of the program, and a test reads them
	}
	return all
})

// readCatalogs reads the folders of all languages.
func readCatalogs(files fs.FS) (map[string]*catalog, error) {
	folders, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	all := map[string]*catalog{}
	for _, folder := range folders {
		if all[folder.Name()], err = readCatalog(files, folder.Name()); err != nil {
			return nil, err
		}
	}
	for _, c := range all {
		for key, e := range all[source].texts {
			if _, ok := c.texts[key]; !ok {
				c.texts[key] = e
			}
		}
		for key, forms := range all[source].scripts {
			if _, ok := c.scripts[key]; !ok {
				c.scripts[key] = forms
			}
		}
		c.group, c.decimal = c.write(FormatGroup()), c.write(FormatDecimal())
		c.months, c.weekdays = strings.Fields(c.write(FormatMonths())), strings.Fields(c.write(FormatWeekdays()))
	}
	return all, nil
}

// readCatalog reads the folder of a language.
func readCatalog(files fs.FS, folder string) (*catalog, error) {
	names, err := fs.Glob(files, folder+"/*.yaml")
	if err != nil {
		return nil, err
	}
	tag, err := language.Parse(folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	c := &catalog{language: tag, texts: map[string]entry{}, scripts: map[string]map[string]string{}}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		texts, err := section.Read(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range texts {
			e := entry{texts[i].CountArgument(), map[plural.Form][]section.Part{}}
			forms := map[string]string{}
			for _, form := range texts[i].Forms {
				of, ok := pluralForms[form.Name]
				if !ok {
					return nil, fmt.Errorf("%s: %s: %s must be zero, one, two, few, many or other", name, texts[i].Name, form.Name)
				}
				e.forms[of], forms[form.Name] = form.Parts, form.Text
			}
			title := strings.TrimSuffix(path.Base(name), ".yaml")
			if title == "script" || title == "countdown" {
				c.scripts[texts[i].Name] = forms
			}
			c.texts[title+"."+texts[i].Name] = e
		}
	}
	return c, nil
}

var pluralForms = map[string]plural.Form{ //nolint:gochecknoglobals // a table
	"zero": plural.Zero, "one": plural.One, "two": plural.Two, "few": plural.Few, "many": plural.Many, "other": plural.Other,
}

// find returns the parts of a text in the plural form of its count.
func (c *catalog) find(key string, args []argument) []section.Part {
	e := c.texts[key]
	if n, ok := valueOf(e.count, args).(int); ok {
		if parts, ok := e.forms[c.selectForm(n)]; ok {
			return parts
		}
	}
	return e.forms[plural.Other]
}

func (c *catalog) selectForm(n int) plural.Form {
	return plural.Cardinal.MatchPlural(c.language, max(n, -n), 0, 0, 0, 0)
}

// write returns a message as text.
func (c *catalog) write(m Message) string {
	switch value := m.value.(type) {
	case int:
		return c.groupDigits(strconv.Itoa(value))
	case decimal:
		return c.writeDecimal(value)
	case time.Time:
		return c.writeTime(value, c.write(Message{key: m.key}))
	}
	if m.key == "" && m.joined == nil {
		return m.literal
	}
	var b strings.Builder
	for i, one := range m.joined {
		if i > 0 {
			b.WriteString(m.literal)
		}
		b.WriteString(c.write(one))
	}
	for _, p := range c.find(m.key, m.args) {
		b.WriteString(c.writePart(p, m.args))
	}
	return b.String()
}

// render writes parts as HTML.
func (c *catalog) render(ctx context.Context, w io.Writer, parts []section.Part, args []argument) error {
	for _, p := range parts {
		component, ok := valueOf(p.Argument, args).(templ.Component)
		if !ok {
			component = Literal(c.writePart(p, args))
		}
		if err := component.Render(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// writePart returns a part that is no component.
func (c *catalog) writePart(p section.Part, args []argument) string {
	switch value := valueOf(p.Argument, args).(type) {
	case Message:
		return c.write(value)
	case int:
		return c.groupDigits(strconv.Itoa(value))
	case string:
		return value
	}
	return p.Literal
}

// groupDigits writes 12500 as "12,500".
func (c *catalog) groupDigits(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + c.group + digits[i:]
	}
	return digits
}

func (c *catalog) writeDecimal(d decimal) string {
	whole, fraction, found := strings.Cut(string(d), ".")
	if !found {
		return c.groupDigits(whole)
	}
	return c.groupDigits(whole) + c.decimal + fraction
}

// writeTime formats a time in a layout of package time, whose Jan and Mon are the language's own names.
func (c *catalog) writeTime(t time.Time, layout string) string {
	const month, weekday = "\x01", "\x02"
	shown := t.Format(strings.NewReplacer("Jan", month, "Mon", weekday).Replace(layout))
	return strings.NewReplacer(month, c.months[t.Month()-1], weekday, c.weekdays[t.Weekday()]).Replace(shown)
}

type languageKey struct{}

// WithLanguage returns a context in which messages are in the best of the languages, which are the value of an Accept-Language header
// or the name of one language.
func WithLanguage(ctx context.Context, accepted string) context.Context {
	wanted, _, err := language.ParseAcceptLanguage(accepted)
	if err != nil {
		wanted = nil
	}
	_, best, confidence := matcher().Match(wanted...)
	if confidence == language.No {
		best = 0
	}
	return context.WithValue(ctx, languageKey{}, catalogs()[folders()[best]])
}

// catalogOf returns the catalog of a context's language.
func catalogOf(ctx context.Context) *catalog {
	if c, ok := ctx.Value(languageKey{}).(*catalog); ok {
		return c
	}
	return catalogs()[source]
}

// folders lists the languages, the one of the source first.
var folders = sync.OnceValue(func() []string { //nolint:gochecknoglobals // computed once
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(catalogs())), func(name string) bool { return name == source })
	return append([]string{source}, others...)
})

var matcher = sync.OnceValue(func() language.Matcher { //nolint:gochecknoglobals // computed once
	var tags []language.Tag
	for _, folder := range folders() {
		tags = append(tags, catalogs()[folder].language)
	}
	return language.NewMatcher(tags)
})

// Language is a language that has a catalog.
type Language struct {
	Tag  string // as in the attribute lang
	Name string // in the language itself
}

// Languages lists the languages, English first.
func Languages() []Language {
	var list []Language
	for _, folder := range folders() {
		c := catalogs()[folder]
		list = append(list, Language{folder, c.write(FormatLanguage())})
	}
	return list
}

// LanguageOf returns the tag of a context's language.
func LanguageOf(ctx context.Context) string { return catalogOf(ctx).language.String() }

// Scripts returns the texts of the sections "script" and "countdown" by name and plural form, for scripts to fill in.
func Scripts(ctx context.Context) map[string]map[string]string { return catalogOf(ctx).scripts }

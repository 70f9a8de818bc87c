package text

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"

	"github.com/holdpoint/holdpoint/ui/text/section"
)

//go:embed en
var files embed.FS

// catalog has the texts of one language by key, such as "queue.Waiting".
type catalog struct {
	language language.Tag
	texts    map[string]entry
	scripts  map[string]map[string]string
}

// Scripts returns the texts of the sections "script" and "countdown" by name and plural form, for scripts to fill in.
func Scripts() map[string]map[string]string { return english().scripts }

// entry is a text by its plural forms.
type entry struct {
	count string // the argument that selects the form, if there is one
	forms map[plural.Form][]section.Part
}

// english is the catalog of the English texts.
var english = sync.OnceValue(func() *catalog { //nolint:gochecknoglobals // read once
	c, err := readCatalog(files, "en")
	if err != nil {
		panic(err) // the files are part of the program, and a test reads them
	}
	return c
})

// readCatalog reads the folder of a language.
func readCatalog(files fs.FS, folder string) (*catalog, error) {
	names, err := fs.Glob(files, folder+"/*.yaml")
	if err != nil {
		return nil, err
	}
	c := &catalog{language: language.Make(folder), texts: map[string]entry{}, scripts: map[string]map[string]string{}}
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
					return nil, fmt.Errorf("%s: %s: %s is no plural form; expected zero, one, two, few, many or other", name, texts[i].Name, form.Name)
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
		if parts, ok := e.forms[plural.Cardinal.MatchPlural(c.language, n, 0, 0, 0, 0)]; ok {
			return parts
		}
	}
	return e.forms[plural.Other]
}

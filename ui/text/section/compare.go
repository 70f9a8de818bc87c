package section

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

// Compare returns how the folder of a translation differs from that of the source, other than in words: missing and unknown sections
// and texts, other arguments, and other plural forms than those of the language.
func Compare(files fs.FS, source, folder string) ([]error, error) {
	tag, err := language.Parse(folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	originals, err := readFolder(files, source)
	if err != nil {
		return nil, err
	}
	translations, err := readFolder(files, folder)
	if err != nil {
		return nil, err
	}
	var problems []error
	for key, original := range originals {
		translation, ok := translations[key]
		if !ok {
			problems = append(problems, fmt.Errorf("%s/%s: missing", folder, key))
			continue
		}
		if got, want := sortArguments(translation), sortArguments(original); !slices.Equal(got, want) {
			problems = append(problems, fmt.Errorf("%s/%s: arguments must be %q, not %q", folder, key, want, got))
		}
		if got, want := formsOf(translation), PluralForms(tag); len(original.Forms)+len(translation.Forms) > 2 && !slices.Equal(got, want) {
			problems = append(problems, fmt.Errorf("%s/%s: plural forms must be %q, not %q", folder, key, want, got))
		}
	}
	for key := range translations {
		if _, ok := originals[key]; !ok {
			problems = append(problems, fmt.Errorf("%s/%s: %s does not have it", folder, key, source))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return problems, nil
}

// readFolder returns the texts of a folder by file and name.
func readFolder(files fs.FS, folder string) (map[string]*Text, error) {
	names, err := fs.Glob(files, folder+"/*.yaml")
	if err != nil {
		return nil, err
	}
	all := map[string]*Text{}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		texts, err := Read(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range texts {
			all[strings.TrimPrefix(name, folder+"/")+": "+texts[i].Name] = &texts[i]
		}
	}
	return all, nil
}

// sortArguments returns the arguments of a text in the order of their names, as in the file.
func sortArguments(t *Text) []string {
	list := make([]string, 0, len(t.Arguments))
	for _, a := range t.Arguments {
		list = append(list, a.Name+":"+string(a.Kind))
	}
	slices.Sort(list)
	return list
}

func formsOf(t *Text) []string {
	list := make([]string, 0, len(t.Forms))
	for _, f := range t.Forms {
		list = append(list, f.Name)
	}
	slices.Sort(list)
	return list
}

// PluralForms returns the names of the forms that whole numbers have in a language.
func PluralForms(tag language.Tag) []string {
	const million = 1_000_000 // has a form of its own in some languages
	names := map[plural.Form]string{plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many", plural.Other: "other"}
	var list []string
	for n := range 200 {
		list = append(list, names[plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)])
	}
	list = append(list, names[plural.Cardinal.MatchPlural(tag, million, 0, 0, 0, 0)])
	slices.Sort(list)
	return slices.Compact(list)
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
)

// fieldFlags are the flags of a command that set one field each of what it sends. What no flag names is not sent.
// Secrets come from variables and files only: what is in a command line, others on the machine see.
type fieldFlags struct {
	env  *Env
	cmd  *cobra.Command
	puts []func(body map[string]any) error
}

// read makes the body that the flags say.
func (f *fieldFlags) read() (map[string]any, error) {
	body := map[string]any{}
	for _, put := range f.puts {
		if err := put(body); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// field adds what a flag says, once it is given, at a path such as oauth.client_id.
func (f *fieldFlags) field(flag, path string, value func() (any, error)) {
	f.puts = append(f.puts, func(body map[string]any) error {
		if !f.cmd.Flags().Changed(flag) {
			return nil
		}
		v, err := value()
		if err != nil {
			return err
		}
		put(body, path, v)
		return nil
	})
}

func put(body map[string]any, path string, value any) {
	first, rest, nested := strings.Cut(path, ".")
	if !nested {
		body[first] = value
		return
	}
	part, ok := body[first].(map[string]any)
	if !ok {
		part = map[string]any{}
		body[first] = part
	}
	put(part, rest, value)
}

func (f *fieldFlags) text(flag, path, usage string) {
	v := f.cmd.Flags().String(flag, "", usage)
	f.field(flag, path, func() (any, error) { return *v, nil })
}

func (f *fieldFlags) bool(flag, path, usage string) {
	v := f.cmd.Flags().Bool(flag, false, usage)
	f.field(flag, path, func() (any, error) { return *v, nil })
}

func (f *fieldFlags) number(flag, path, usage string) {
	v := f.cmd.Flags().Int(flag, 0, usage)
	f.field(flag, path, func() (any, error) { return *v, nil })
}

func (f *fieldFlags) decimal(flag, path, usage string) {
	v := f.cmd.Flags().Float64(flag, 0, usage)
	f.field(flag, path, func() (any, error) { return *v, nil })
}

// words are given one by one: they may have commas in them.
func (f *fieldFlags) words(flag, path, usage string) {
	v := f.cmd.Flags().StringArray(flag, nil, usage)
	f.field(flag, path, func() (any, error) { return *v, nil })
}

// list is given with commas between.
func (f *fieldFlags) list(flag, path, usage string) {
	v := f.cmd.Flags().StringSlice(flag, nil, usage)
	f.field(flag, path, func() (any, error) { return *v, nil })
}

// secret comes from a variable or a file.
func (f *fieldFlags) secret(flag, path, what string) {
	variable := f.cmd.Flags().String(flag+"-env", "", "variable that holds "+what)
	file := f.cmd.Flags().String(flag+"-file", "", "file that holds "+what+"; - is standard input")
	f.cmd.MarkFlagsMutuallyExclusive(flag+"-env", flag+"-file")
	f.field(flag+"-env", path, func() (any, error) { return f.env.variable(*variable) })
	f.field(flag+"-file", path, func() (any, error) { return f.env.fileText(*file) })
}

// secrets are values by name: --header-env X-Team=TEAM. With removable there is a flag that takes some of them away.
func (f *fieldFlags) secrets(flag, path, what string, removable bool) {
	f.named(flag+"-env", path, what+", of a variable: NAME=VARIABLE", f.env.variable)
	f.named(flag+"-file", path, what+", of a file: NAME=FILE", f.env.fileText)
	if !removable {
		return
	}
	gone := f.cmd.Flags().StringArray("remove-"+flag, nil, what+" to take away: NAME")
	f.puts = append(f.puts, func(body map[string]any) error {
		for _, name := range *gone {
			putNamed(body, path, name, nil)
		}
		return nil
	})
}

func (f *fieldFlags) named(flag, path, usage string, read func(string) (string, error)) {
	pairs := f.cmd.Flags().StringArray(flag, nil, usage)
	f.puts = append(f.puts, func(body map[string]any) error {
		for _, pair := range *pairs {
			name, source, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return misuse("--%s %s: want NAME, = and where its value is", flag, name)
			}
			value, err := read(source)
			if err != nil {
				return err
			}
			putNamed(body, path, name, value)
		}
		return nil
	})
}

// putNamed sets a member whose name may have dots in it.
func putNamed(body map[string]any, path, name string, value any) {
	part, ok := body[path].(map[string]any)
	if !ok {
		part = map[string]any{}
		body[path] = part
	}
	part[name] = value
}

// variable is the value of one. An empty one is most likely a mistake.
func (e *Env) variable(name string) (string, error) {
	value := strings.TrimSpace(e.Getenv(name))
	if value == "" {
		return "", fmt.Errorf("variable %s is not set", name)
	}
	return value, nil
}

// fileText is what a file holds, without the white space around it.
func (e *Env) fileText(name string) (string, error) {
	text, err := e.readFile(name)
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(text))
	if value == "" {
		return "", fmt.Errorf("file %s is empty", name)
	}
	return value, nil
}

var errNothingToChange = errors.New("say with flags what to change; what no flag names stays")

// edit changes something by what the flags say. Parts are the members that the API replaces as wholes: what is
// not said of them is as it was, at the revision that it was read in.
func (f *fieldFlags) edit(ctx context.Context, path, done string, parts ...string) error {
	body, err := f.read()
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return &usageError{errNothingToChange}
	}
	for _, part := range parts {
		if err := f.complete(ctx, path, body, part); err != nil {
			return err
		}
	}
	api, err := f.env.client()
	if err != nil {
		return err
	}
	text, err := api.Patch(ctx, path, body)
	if err != nil {
		return err
	}
	return f.env.printDone(text, done)
}

// complete fills in what the flags leave out of a part, as it is at present.
func (f *fieldFlags) complete(ctx context.Context, path string, body map[string]any, part string) error {
	said, ok := body[part].(map[string]any)
	if !ok {
		return nil
	}
	text, err := f.env.get(ctx, path, nil)
	if err != nil {
		return err
	}
	now, err := decode[map[string]any](text)
	if err != nil {
		return err
	}
	if present, ok := now[part].(map[string]any); ok {
		delete(present, "secrets") // names; those that are left out stay
		body[part] = merged(present, said)
	}
	body["revision"] = now["revision"]
	return nil
}

// merged is present with what was said in its place. Null says nothing.
func merged(present, said map[string]any) map[string]any {
	all := map[string]any{}
	for name, value := range present {
		if value != nil {
			all[name] = value
		}
	}
	for name, value := range said {
		inner, isPart := value.(map[string]any)
		before, wasPart := all[name].(map[string]any)
		if isPart && wasPart {
			value = merged(before, inner)
		}
		all[name] = value
	}
	return all
}

// create makes something of a name and what the flags say.
func (f *fieldFlags) create(ctx context.Context, path, name, done string) error {
	body, err := f.read()
	if err != nil {
		return err
	}
	all := map[string]any{"name": name}
	maps.Copy(all, body)
	text, err := f.env.post(ctx, path, all)
	if err != nil {
		return err
	}
	return f.env.printDone(text, done)
}

func (e *Env) printDone(text json.RawMessage, done string) error {
	if e.json {
		return e.printJSON(text)
	}
	return write(e.Stdout, cell(done)+"\n")
}

package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/client"
)

// fieldFlags are the flags of a command that each set one field of the request. Fields whose flag is not given are left
// out. Secrets come only from variables and files: other users of the machine can see a command line.
type fieldFlags struct {
	env  *Env
	cmd  *cobra.Command
	puts []func(body map[string]any) error
}

// readBody makes the body of the request.
func (f *fieldFlags) readBody() (map[string]any, error) {
	body := map[string]any{}
	for _, put := range f.puts {
		if err := put(body); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// addField sends a flag, if it is given, as the field at a path such as oauth.client_id.
func (f *fieldFlags) addField(flag, path string, value func() (any, error)) {
	f.puts = append(f.puts, func(body map[string]any) error {
		if !f.cmd.Flags().Changed(flag) {
			return nil
		}
		v, err := value()
		if err != nil {
			return err
		}
		setField(body, path, v)
		return nil
	})
}

func setField(body map[string]any, path string, value any) {
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
	setField(part, rest, value)
}

func (f *fieldFlags) addText(flag, path, usage string) {
	v := f.cmd.Flags().String(flag, "", usage)
	f.addField(flag, path, func() (any, error) { return *v, nil })
}

func (f *fieldFlags) addBool(flag, path, usage string) {
	v := f.cmd.Flags().Bool(flag, false, usage)
	f.addField(flag, path, func() (any, error) { return *v, nil })
}

func (f *fieldFlags) addNumber(flag, path, usage string) {
	v := f.cmd.Flags().Int(flag, 0, usage)
	f.addField(flag, path, func() (any, error) { return *v, nil })
}

func (f *fieldFlags) addDecimal(flag, path, usage string) {
	v := f.cmd.Flags().Float64(flag, 0, usage)
	f.addField(flag, path, func() (any, error) { return *v, nil })
}

// addWords adds a flag that is repeated for each word. Words may have commas.
func (f *fieldFlags) addWords(flag, path, usage string) {
	v := f.cmd.Flags().StringArray(flag, nil, usage)
	f.addField(flag, path, func() (any, error) { return *v, nil })
}

// addList adds a flag with values separated by commas.
func (f *fieldFlags) addList(flag, path, usage string) {
	v := f.cmd.Flags().StringSlice(flag, nil, usage)
	f.addField(flag, path, func() (any, error) { return *v, nil })
}

// addEscalation adds a flag for the steps of an escalation. none is the meaning of an empty one.
func (f *fieldFlags) addEscalation(none string) {
	v := f.cmd.Flags().StringArray("escalation", nil, `step of the escalation, and again for each: "2m: payments, person:ann@example.com", "50%: duty"; "" is `+none)
	f.addField("escalation", "escalation", func() (any, error) {
		steps, err := approval.ParseEscalation(strings.Join(*v, "\n"))
		if err != nil {
			return nil, misusef("--escalation: %s", err)
		}
		return append([]approval.EscalationStep{}, steps...), nil
	})
}

// addSecret adds flags that name a variable or a file with a secret.
func (f *fieldFlags) addSecret(flag, path, what string) {
	variable := f.cmd.Flags().String(flag+"-env", "", "variable that holds "+what)
	file := f.cmd.Flags().String(flag+"-file", "", "file that holds "+what+"; - is standard input")
	f.cmd.MarkFlagsMutuallyExclusive(flag+"-env", flag+"-file")
	f.addField(flag+"-env", path, func() (any, error) { return f.env.readVariable(*variable) })
	f.addField(flag+"-file", path, func() (any, error) { return f.env.readSecretFile(*file) })
}

// addSecrets adds flags for secrets by name: --header-env X-Team=TEAM. With removable, another flag removes them.
func (f *fieldFlags) addSecrets(flag, path, what string, removable bool) {
	f.addNamed(flag+"-env", path, what+", of a variable: NAME=VARIABLE", f.env.readVariable)
	f.addNamed(flag+"-file", path, what+", of a file: NAME=FILE", f.env.readSecretFile)
	if !removable {
		return
	}
	removed := f.cmd.Flags().StringArray("remove-"+flag, nil, what+" to take away: NAME")
	f.puts = append(f.puts, func(body map[string]any) error {
		for _, name := range *removed {
			setMember(body, path, name, nil)
		}
		return nil
	})
}

func (f *fieldFlags) addNamed(flag, path, usage string, read func(string) (string, error)) {
	pairs := f.cmd.Flags().StringArray(flag, nil, usage)
	f.puts = append(f.puts, func(body map[string]any) error {
		for _, pair := range *pairs {
			name, source, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return misusef("--%s %s: must be NAME= and where its value is", flag, name)
			}
			value, err := read(source)
			if err != nil {
				return err
			}
			setMember(body, path, name, value)
		}
		return nil
	})
}

// setMember sets a member of an object. Its name may have dots.
func setMember(body map[string]any, path, name string, value any) {
	part, ok := body[path].(map[string]any)
	if !ok {
		part = map[string]any{}
		body[path] = part
	}
	part[name] = value
}

// readVariable returns the value of a variable. An empty one is most likely a mistake.
func (e *Env) readVariable(name string) (string, error) {
	value := strings.TrimSpace(e.Getenv(name))
	if value == "" {
		return "", fmt.Errorf("variable %s is not set", name)
	}
	return value, nil
}

// readSecretFile returns the text of a file without the white space around it.
func (e *Env) readSecretFile(name string) (string, error) {
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

// create sends a name and the fields of the flags.
func (f *fieldFlags) create(ctx context.Context, api *client.Client, path, name, done string) error {
	body, err := f.readBody()
	if err != nil {
		return err
	}
	body["name"] = name
	reply, err := api.Send(ctx, http.MethodPost, path, body)
	return printDone(f.env, client.Reply[struct{}](reply), err, done)
}

// edit changes the fields of the flags. The API replaces parts as a whole, so their other fields are sent as they are at
// present, with the revision that they were read at.
func (f *fieldFlags) edit(ctx context.Context, api *client.Client, path string, parts ...string) error {
	body, err := f.readBody()
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return misusef("give flags for the fields to change; the others stay as they are")
	}
	for _, part := range parts {
		if err := completePart(ctx, api, path, body, part); err != nil {
			return err
		}
	}
	reply, err := api.Send(ctx, http.MethodPatch, path, body)
	return printDone(f.env, client.Reply[struct{}](reply), err, "Saved.")
}

// completePart adds the present values of the fields of a part that the flags leave out.
func completePart(ctx context.Context, api *client.Client, path string, body map[string]any, part string) error {
	changed, ok := body[part].(map[string]any)
	if !ok {
		return nil
	}
	reply, err := api.Send(ctx, http.MethodGet, path, nil)
	present, err := client.Value(client.Reply[map[string]any](reply), err)
	if err != nil {
		return err
	}
	if fields, ok := present[part].(map[string]any); ok {
		delete(fields, "secrets") // their names; secrets that are left out stay
		body[part] = mergeFields(fields, changed)
	}
	body["revision"] = present["revision"]
	return nil
}

// mergeFields returns the present fields with the changed ones in their place. Null members are left out.
func mergeFields(present, changed map[string]any) map[string]any {
	all := map[string]any{}
	for name, value := range present {
		if value != nil {
			all[name] = value
		}
	}
	for name, value := range changed {
		inner, isPart := value.(map[string]any)
		before, wasPart := all[name].(map[string]any)
		if isPart && wasPart {
			value = mergeFields(before, inner)
		}
		all[name] = value
	}
	return all
}

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// serverKey marks commands whose flags are settings of the server.
const serverKey = "holdpoint.server"

// ServerSettings makes a command's own flags settings of the server: a flag that
// is not given is taken from its variable (--data-dir: HOLDPOINT_DATA_DIR), else from the
// part "server:" of holdpoint.yaml (data_dir). An empty variable counts as none.
func ServerSettings(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[serverKey] = "true"
	return cmd
}

// ownKey marks flags that are no settings.
const ownKey = "holdpoint.own"

// notSettings excepts flags of a command from [ServerSettings].
func notSettings(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.Flags().SetAnnotation(name, ownKey, nil) // it fails for a flag that is not defined
	}
}

func isSetting(flag *pflag.Flag) bool {
	_, own := flag.Annotations[ownKey]
	return !own && flag.Name != "help"
}

// resolveSettings fills in flags that were not given.
//
// Clients take nothing from a file: one that lies about must not send their
// token to a server of its choice.
func (e *Env) resolveSettings(cmd *cobra.Command) error {
	root := cmd.Root().PersistentFlags()
	for _, name := range []string{"url", "token", "config"} {
		if err := e.fromVariable(root.Lookup(name)); err != nil {
			return err
		}
	}
	if cmd.Annotations[serverKey] == "" {
		return nil
	}
	file, err := e.serverFile(cmd.Root())
	if err != nil {
		return err
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if err != nil || !isSetting(flag) {
			return
		}
		if err = e.fromVariable(flag); err == nil {
			err = file.fill(flag)
		}
	})
	return err
}

func (e *Env) fromVariable(flag *pflag.Flag) error {
	if flag.Changed {
		return nil
	}
	name := "HOLDPOINT_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
	value := e.Getenv(name)
	if value == "" {
		return nil
	}
	if err := flag.Value.Set(value); err != nil {
		return misuse("%s: %w", name, err)
	}
	flag.Changed = true
	return nil
}

// serverFile is the part "server:" of a file. A nil one holds nothing.
type serverFile struct {
	name   string
	values map[string]*ast.MappingValueNode
}

func (e *Env) serverFile(root *cobra.Command) (*serverFile, error) {
	name, optional := e.config, false
	if name == "" {
		name, optional = "holdpoint.yaml", true
	}
	text, err := os.ReadFile(name)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	file, err := readServerPart(name, text)
	if err != nil {
		return nil, err
	}
	return file, file.check(root)
}

func readServerPart(name string, text []byte) (*serverFile, error) {
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, settingError(name, err)
	}
	file := &serverFile{name: name, values: map[string]*ast.MappingValueNode{}}
	for _, document := range parsed.Docs {
		for _, top := range pairs(document.Body) {
			if keyText(top) != "server" {
				continue
			}
			if top.Value.Type() == ast.NullType {
				continue
			}
			inner := pairs(top.Value)
			if inner == nil {
				return nil, misuse("%s: server: want a mapping", position(name, top.Value))
			}
			for _, pair := range inner {
				file.values[keyText(pair)] = pair
			}
		}
	}
	return file, nil
}

func pairs(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// keyText is a key without the quotes it may have.
func keyText(pair *ast.MappingValueNode) string {
	if key, ok := pair.Key.(*ast.StringNode); ok {
		return key.Value
	}
	return pair.Key.String()
}

func position(name string, node ast.Node) string {
	at := node.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", name, at.Line, at.Column)
}

func settingError(name string, err error) error {
	var located yaml.Error
	if errors.As(err, &located) && located.GetToken() != nil {
		at := located.GetToken().Position
		return misuse("%s:%d:%d: %s", name, at.Line, at.Column, located.GetMessage())
	}
	return misuse("%s: %w", name, err)
}

// check refuses settings that no command of the server has.
func (f *serverFile) check(root *cobra.Command) error {
	known := map[string]bool{}
	for _, cmd := range root.Commands() {
		if cmd.Annotations[serverKey] != "" {
			cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) { known[settingName(flag)] = true })
		}
	}
	for name, pair := range f.values {
		if !known[name] {
			return misuse("%s: server: unknown setting %q", position(f.name, pair.Key), name)
		}
	}
	return nil
}

func settingName(flag *pflag.Flag) string { return strings.ReplaceAll(flag.Name, "-", "_") }

// fill sets a flag from the file, unless it was set before.
func (f *serverFile) fill(flag *pflag.Flag) error {
	if f == nil || flag.Changed {
		return nil
	}
	pair, ok := f.values[settingName(flag)]
	if !ok {
		return nil
	}
	values := []ast.Node{pair.Value}
	if list, ok := pair.Value.(*ast.SequenceNode); ok {
		values = list.Values
	}
	for _, node := range values {
		scalar, ok := node.(ast.ScalarNode)
		if !ok || node.Type() == ast.NullType {
			return misuse("%s: server.%s: want a value", position(f.name, pair.Key), settingName(flag))
		}
		if err := flag.Value.Set(fmt.Sprint(scalar.GetValue())); err != nil {
			return misuse("%s: server.%s: %w", position(f.name, node), settingName(flag), err)
		}
	}
	flag.Changed = true
	return nil
}

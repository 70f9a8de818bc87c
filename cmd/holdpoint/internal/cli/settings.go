package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
)

// serverKey marks commands whose flags are settings of the server.
const serverKey = "holdpoint.server"

// ServerSettings makes a command's own flags settings of the server: the value of a flag that is not given comes from its
// variable (--data-dir: HOLDPOINT_DATA_DIR), else from the section "server:" of holdpoint.yaml (data_dir). An empty
// variable counts as none.
func ServerSettings(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[serverKey] = "true"
	return cmd
}

// ownKey marks flags that are not settings.
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

// resolveSettings sets flags that were not given.
//
// Settings of clients do not come from a file: a planted file must not send their token to another server.
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
			err = file.fillFlag(flag)
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
		return misusef("%s: %w", name, explainValue(err))
	}
	flag.Changed = true
	return nil
}

// serverFile is the section "server:" of a file. A nil one is empty.
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
	return file, file.checkNames(root)
}

func readServerPart(name string, text []byte) (*serverFile, error) {
	parsed, wrong := manifest.ParseYAML(name, text)
	if wrong != nil {
		return nil, &usageError{wrong}
	}
	file := &serverFile{name: name, values: map[string]*ast.MappingValueNode{}}
	for _, document := range parsed.Docs {
		for _, top := range manifest.PairsOf(document.Body) {
			if manifest.KeyText(top) != "server" || top.Value.Type() == ast.NullType {
				continue
			}
			inner := manifest.PairsOf(top.Value)
			if inner == nil {
				return nil, file.misusef(top.Value, "server", "must be a mapping")
			}
			for _, pair := range inner {
				file.values[manifest.KeyText(pair)] = pair
			}
		}
	}
	return file, nil
}

// misusef is an error at a node of the file.
func (f *serverFile) misusef(node ast.Node, path, format string, args ...any) error {
	return &usageError{&manifest.Error{File: f.name, Place: manifest.PlaceOf(node), Path: path, Message: fmt.Sprintf(format, args...)}}
}

// checkNames refuses unknown settings.
func (f *serverFile) checkNames(root *cobra.Command) error {
	known := map[string]bool{}
	for _, cmd := range root.Commands() {
		if cmd.Annotations[serverKey] != "" {
			cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) { known[settingName(flag)] = true })
		}
	}
	for name, pair := range f.values {
		if !known[name] {
			return f.misusef(pair.Key, "server", "unknown setting %q", name)
		}
	}
	return nil
}

func settingName(flag *pflag.Flag) string { return strings.ReplaceAll(flag.Name, "-", "_") }

// fillFlag sets a flag from the file, unless it is set.
func (f *serverFile) fillFlag(flag *pflag.Flag) error {
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
			return f.misusef(pair.Key, "server."+settingName(flag), "must be a value")
		}
		if err := flag.Value.Set(fmt.Sprint(scalar.GetValue())); err != nil {
			return f.misusef(node, "server."+settingName(flag), "%v", explainValue(err))
		}
	}
	flag.Changed = true
	return nil
}

// Package openapi makes tool definitions from OpenAPI documents (3.0 and 3.1) and from endpoints that an operator wrote by hand.
//
// A definition holds a [Binding]: all that a request is made from, except the base URL and the secrets. Definitions are pinned, so a call
// needs no document, and a changed document shows as changed definitions.
//
// A document is hostile text. What its reading may take is limited, and one operation that cannot be a tool does not keep others from
// being tools. The package fetches nothing and sends nothing.
package openapi

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Generation numbers the rules by which definitions are made. Raise it with each change that makes different definitions from the same
// document: processes of two versions run side by side during an upgrade.
const Generation = 1

// Limits bound the definitions of one skill. Zero fields have the defaults named.
type Limits struct {
	Operations  int // selected operations. Default 2,000
	ToolBytes   int // of all definitions together. Default 64 MiB
	InputBytes  int // of one input schema. Default 256 KiB
	OutputBytes int // of one output schema: a longer one is left out. Default 64 KiB
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Operations: cmp.Or(l.Operations, 2000), ToolBytes: cmp.Or(l.ToolBytes, 64<<20),
		InputBytes: cmp.Or(l.InputBytes, 256<<10), OutputBytes: cmp.Or(l.OutputBytes, 64<<10),
	}
}

// Definitions are the tools of one skill.
type Definitions struct {
	Tools      []tool.Definition
	Skipped    []tool.Skipped // operations that cannot be tools, and filters that match nothing
	Operations int            // in the whole document
}

// Define makes a definition of each operation that the skill's settings select. An error is about the whole document; [Reason] makes
// it fit to be shown. It wraps the error of ctx if that is done.
func Define(ctx context.Context, text []byte, server *tool.Server, limits Limits) (_ *Definitions, err error) {
	defer catchStop(&err)
	doc, err := readDocument(ctx, text)
	if err != nil {
		return nil, err
	}
	return newBuilder(doc, server, limits).defineTools()
}

// defineTools makes the definitions of the selected operations.
func (b *builder) defineTools() (*Definitions, error) {
	if b.server.URL == "" {
		if _, err := b.base.documentBase(); err != nil {
			return nil, err
		}
	}
	selected, missing := selectOperations(b.all, b.server.API)
	if len(selected) > b.limits.Operations {
		return nil, fmt.Errorf("%d operations of the document are selected, at most %d can be: choose some with include", len(selected), b.limits.Operations)
	}
	made := &Definitions{Skipped: missing, Operations: len(b.all)}
	size := 0
	for _, o := range selected {
		t, err := b.buildTool(o)
		if err != nil {
			made.Skipped = append(made.Skipped, tool.Skipped{Name: o.name, Reason: Reason(err)})
			continue
		}
		if size += len(t.definition.Raw()); size > b.limits.ToolBytes {
			return nil, fmt.Errorf("the tools of the document are together larger than %d MiB: choose some with include", b.limits.ToolBytes>>20)
		}
		made.Tools = append(made.Tools, t.definition)
	}
	return made, nil
}

// CheckDocument returns the origins (RFC 6454) of the servers that a document names, or an error about the whole document. Operations
// that cannot be tools are no error.
func CheckDocument(text []byte) (origins []string, err error) {
	defer catchStop(&err)
	doc, err := readDocument(context.Background(), text)
	if err != nil {
		return nil, err
	}
	return doc.listOrigins(), nil
}

// Reason returns an error of this package on one line, short enough for a list.
func Reason(err error) string {
	text := strings.TrimPrefix(err.Error(), tool.ErrDefinition.Error()+": ")
	return plain.Line(strings.Join(strings.Fields(text), " "), maxReason)
}

package resource

import (
	"strings"
	"unicode"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Kind is what can be listed.
type Kind int

// The kinds of lists.
const (
	Resources Kind = iota
	Templates
	Prompts
)

// Method is the request that lists it.
func (k Kind) Method() string {
	return [...]string{"resources/list", "resources/templates/list", "prompts/list"}[k]
}

// Member is where a result has the list.
func (k Kind) Member() string { return [...]string{"resources", "resourceTemplates", "prompts"}[k] }

// key is the member that tells entries apart.
func (k Kind) key() string { return [...]string{"uri", "uriTemplate", "name"}[k] }

// MaxURI bounds a URI or a template, in bytes.
const MaxURI = 8 << 10

// maxPromptName bounds the name of a prompt, in bytes.
const maxPromptName = 1024

// usable reports whether an entry may be called this.
func (k Kind) usable(name string) bool {
	limit := MaxURI
	if k == Prompts {
		limit = maxPromptName
	}
	return name != "" && len(name) <= limit && !strings.ContainsFunc(name, unicode.IsControl)
}

// exposed is the name by which an agent knows an entry of a skill.
func (k Kind) exposed(o *catalog.Offer, own string) string {
	if k == Prompts {
		return tool.ExposedName(o.Prefix, own)
	}
	return own
}

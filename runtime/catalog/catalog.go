package catalog

import (
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Catalog lists the tools of a conversation in the order in which they are shown: by skill, then by the tool's own name. It is
// immutable and shared between conversations.
type Catalog struct {
	Entries []Entry
	byName  map[string]int
	digest  Digest
}

// Digest is the SHA-256 of a catalog. Catalogs with the same digest list the same tools.
type Digest [sha256.Size]byte

// Entry is one tool of a catalog.
type Entry struct {
	Name          string // as the agent sees it: skill__tool
	SkillID       uuid.UUID
	Skill         string
	SkillRevision int64
	Tool          tool.Definition
}

// NewCatalog makes a catalog of entries with distinct names.
func NewCatalog(entries []Entry) *Catalog {
	c := &Catalog{Entries: entries, byName: make(map[string]int, len(entries))}
	hash := sha256.New()
	for i := range entries {
		e := &entries[i]
		c.byName[e.Name] = i
		pin := e.Tool.Pin()
		// A NUL ends each name, since names contain none. The other fields have a fixed length.
		fmt.Fprintf(hash, "%s\x00%s\x00%x%016x%x", e.Name, e.Skill, e.SkillID[:], e.SkillRevision, pin[:])
	}
	c.digest = Digest(hash.Sum(nil))
	return c
}

// Lookup finds an entry by the name that the agent sees.
func (c *Catalog) Lookup(name string) (*Entry, bool) {
	i, ok := c.byName[name]
	if !ok {
		return nil, false
	}
	return &c.Entries[i], true
}

// Digest identifies the catalog.
func (c *Catalog) Digest() Digest { return c.digest }

// size estimates the memory of a catalog in bytes, without the definitions, which catalogs share.
func (c *Catalog) size() int { return entrySize*len(c.Entries) + 1 }

const entrySize = 512

// builtinDefinitions returns the definitions of the agent's own tools, which no server lists.
func (c *Catalog) builtinDefinitions() []tool.Definition {
	var list []tool.Definition
	for i := range c.Entries {
		if c.Entries[i].IsBuiltin() {
			list = append(list, c.Entries[i].Tool)
		}
	}
	return list
}

package call

import (
	"sync"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxSchemas bounds the compiled schemas kept; a definition may be large.
const maxSchemas = 4096

// schemaCache keeps compiled schemas by pin. They never change.
type schemaCache struct {
	mu      sync.RWMutex
	entries map[tool.Pin]*tool.Schemas
}

func newSchemaCache() *schemaCache {
	return &schemaCache{entries: map[tool.Pin]*tool.Schemas{}}
}

func (c *schemaCache) get(d tool.Definition) (*tool.Schemas, error) {
	c.mu.RLock()
	s, ok := c.entries[d.Pin()]
	c.mu.RUnlock()
	if ok {
		return s, nil
	}
	s, err := tool.CompileSchemas(d)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= maxSchemas {
		clear(c.entries)
	}
	c.entries[d.Pin()] = s
	return s, nil
}

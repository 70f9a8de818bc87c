package runtime

import (
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// provider finds who is asked for an agent's model.
func (rt *Runtime) provider(spec agent.ModelSpec) (model.Provider, error) {
	return nil, fmt.Errorf("no provider is known as %q", spec.Provider)
}

package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/lifetime"
)

// Keep are the server's settings of how long records are kept.
type Keep struct {
	lifetime.Ages

	bound bool
}

// Given returns the ages, or nil for a command without these flags.
func (k *Keep) Given() *lifetime.Ages {
	if !k.bound {
		return nil
	}
	return &k.Ages
}

// Bind adds the flags to a command of the server.
func (k *Keep) Bind(cmd *cobra.Command) {
	k.Ages, k.bound = lifetime.DefaultAges(), true
	for _, one := range []struct {
		name, usage string
		age         *time.Duration
	}{
		{"keep-content", "how long arguments and results of calls that ended are kept: 90d, 36h, or 0 for no end", &k.Content},
		{"keep-calls", "how long the rest of such calls is kept; at least keep-content", &k.Calls},
		{"keep-conversations", "how long conversations that ended, or have no more calls, are kept", &k.Conversations},
		{"keep-files", "how long the content of attached files is kept", &k.Files},
		{"keep-catalogs", "how long catalogs that no conversation has are kept", &k.Catalogs},
		{"keep-definitions", "how long tools' definitions that nothing refers to are kept", &k.Definitions},
		{"keep-counts", "how long the hourly and daily counts of calls are kept", &k.Counts},
		{"keep-deliveries", "how long delivered and failed messages to callbacks are kept", &k.Deliveries},
		{"keep-sessions", "how long the records of browser sessions that ended are kept", &k.Sessions},
		{"keep-events", "how long audit events are kept", &k.Events},
	} {
		cmd.Flags().Var((*ageFlag)(one.age), one.name, one.usage)
	}
}

// Check refuses ages that are too short or contradict each other.
func (k *Keep) Check() error {
	if wrong, ok := errors.AsType[*fault.InvalidError](k.Ages.Check()); ok {
		return misusef("--%w", wrong)
	}
	return nil
}

// ageFlag is the value of a flag that is an age.
type ageFlag time.Duration

func (a *ageFlag) String() string { return lifetime.FormatAge(time.Duration(*a)) }
func (*ageFlag) Type() string     { return "age" }

func (a *ageFlag) Set(text string) error {
	age, err := lifetime.ParseAge(text)
	*a = ageFlag(age)
	return err
}

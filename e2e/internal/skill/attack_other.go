//go:build !linux

package skill

import (
	"context"
	"errors"
)

func runAttack(context.Context, string, string) error { return errors.ErrUnsupported }

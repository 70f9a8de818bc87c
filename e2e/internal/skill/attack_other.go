//go:build !linux

package skill

import (
	"context"
	"errors"
)

func attack(context.Context, string, string) error { return errors.ErrUnsupported }

package operate

import (
	"context"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

// presentOne presents an object, unless there was an error. views returns a function that presents each of the objects.
func presentOne[S, T any](ctx context.Context, one S, err error, views func(context.Context, ...S) (func(S) T, error)) (*rest.Output[T], error) {
	if err != nil {
		return nil, err
	}
	view, err := views(ctx, one)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(one)), nil
}

// presentAll is [presentOne] for a list without further pages.
func presentAll[S, T any](ctx context.Context, list []S, err error, views func(context.Context, ...S) (func(S) T, error)) (*rest.ListOutput[T], error) {
	if err != nil {
		return nil, err
	}
	view, err := views(ctx, list...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(list, "", view), nil
}

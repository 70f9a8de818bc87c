package oauthclient

import "context"

// Find returns the connection that a key stands for now: the shared one where a skill has one for all, and
// where each person has their own, that of whoever the person is the same as. [ErrNotFound] when there is none yet.
func (s *Service) Find(ctx context.Context, key Key) (Connection, error) {
	t, err := s.target(ctx, key)
	if err != nil {
		return Connection{}, err
	}
	c, err := s.read(ctx, s.Pool, byKey, t.args()...)
	if err == nil && c == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Connection{}, err
	}
	return c.Connection, nil
}

// Issuers asks a skill's server which authorization servers it takes tokens of, for somebody to choose
// from. Errors: [ErrNotFound], *[Error].
func (s *Service) Issuers(ctx context.Context, key Key) ([]string, error) {
	t, err := s.target(ctx, key)
	if err != nil {
		return nil, err
	}
	_, r, err := s.standing(ctx, t)
	if err != nil {
		return nil, err
	}
	f, err := s.discover(ctx, t, r.challenge, "")
	if err != nil {
		return nil, err
	}
	return f.issuers, nil
}

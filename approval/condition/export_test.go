package condition

import "context"

// Interpret evaluates a condition without its shortcut.
func (p *Program) Interpret(ctx context.Context, in *Activation, known Answers) (bool, error) {
	return p.interpret(ctx, in, known)
}

// HasShortcut reports whether the shortcut alone answers a condition for a call.
func (p *Program) HasShortcut(in *Activation) bool { return p.shortcut.value(in, p.root) != nil }

package condition

import "context"

// Interpret evaluates a condition without its shortcut.
func (p *Program) Interpret(ctx context.Context, in *Activation, known Answers) (bool, error) {
	return p.interpretCondition(ctx, in, known)
}

// HasShortcut reports whether the shortcut alone answers a condition for a call.
func (p *Program) HasShortcut(in *Activation) bool { return p.shortcut.computeValue(in, p.root) != nil }

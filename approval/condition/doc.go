// Package condition owns the conditions of rules.
package condition

// Package rest has the conventions of the JSON API, which all its handlers share: callers and the rules of routes, problems (RFC
// 9457), pages of lists, and the names of people.
package rest

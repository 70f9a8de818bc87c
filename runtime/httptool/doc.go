// Package httptool is the [tool.Source] of HTTP APIs. It builds the request of a call from the binding in the tool's definition, sends it, and
// turns the answer into a result.
//
// It does not own the definitions, which package openapi makes from documents, nor the rules of an operator's settings (package setting),
// nor jq (package selection). It does not decide who may call a tool, store documents or secrets, or get tokens.
package httptool

// Package httptool owns tools over HTTP APIs: it makes definitions of the operations of OpenAPI documents and of endpoints that
// operators wrote down, requests of calls, and results of answers. It is a [tool.Source].
//
// Everything that a call's request is made of, but the base URL and the secrets, is in the tool's definition (see [Binding]), which is pinned:
// a call needs no document, and a document that changed shows as changed definitions.
//
// It does not own who may call what, nor where documents and secrets are stored, nor how tokens are got.
package httptool

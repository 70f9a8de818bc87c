// Package setting owns the rules of an operator's settings of an HTTP API: the defaults and limits of endpoints, the text form of
// operation filters, and which header fields a setting or an argument may set. It also defines [Examination], the summary of an OpenAPI
// document from which an operator chooses settings.
//
// The settings themselves are plain data in package runtime/tool, because they are part of [tool.Server]. This package sends no requests
// and reads no documents.
package setting

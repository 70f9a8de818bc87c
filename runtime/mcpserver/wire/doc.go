// Package wire has the wire format of agents' endpoints: it reads clients' messages and the headers that mirror them, and edits raw
// JSON on its way to clients. Results and definitions pass through as their server wrote them. Holdpoint's additions are spliced in;
// nothing is decoded and encoded again.
//
// It knows neither calls nor conversations: package mcpserver does.
package wire

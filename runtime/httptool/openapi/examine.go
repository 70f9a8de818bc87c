package openapi

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Examine summarizes an OpenAPI document. spec is the URL that it was read from. Empty: it was given by value. An error is about the whole
// document, as with [Define].
func Examine(ctx context.Context, text []byte, spec string, limits Limits) (_ setting.Examination, err error) {
	defer catchStop(&err)
	doc, err := readDocument(ctx, text)
	if err != nil {
		return setting.Examination{}, err
	}
	info := doc.root.get("info")
	found := setting.Examination{
		OpenAPI: truncateText(doc.version, 20), Title: truncateText(info.get("title").str(), maxTitle), Version: truncateText(info.get("version").str(), maxTitle),
		Description: truncateText(info.get("description").str(), maxDescription), SecuritySchemes: securitySchemes(doc), Servers: []string{},
	}
	// As if the operator had set a base URL: BaseURLReason says once that one is needed, and not each operation.
	b := newBuilder(doc, &tool.Server{URL: "https://base.invalid", API: &tool.API{Spec: spec}}, limits)
	servers := doc.root.get("servers").all()
	for i := range servers {
		one := value{kind: '[', members: servers[i : i+1]}
		if address, err := b.base.serverURL(&one); err == nil && address != "" && len(found.Servers) < maxServers {
			found.Servers = append(found.Servers, truncateText(address, maxAddress))
		}
	}
	base := baseURLs{doc: doc, spec: spec}
	if found.BaseURL, err = base.documentBase(); err != nil {
		found.BaseURLReason = Reason(err)
	}
	size := 0
	for _, o := range b.all {
		operation := b.examineOperation(o)
		size += len(operation.InputSchema) + len(operation.OutputSchema) + len(operation.Path) + len(operation.Skipped) + 500
		if size > b.limits.ToolBytes {
			return found, fmt.Errorf("the operations of the document are together larger than %d MiB", b.limits.ToolBytes>>20)
		}
		found.Operations = append(found.Operations, operation)
	}
	return found, nil
}

const (
	maxServers = 50
	maxAddress = 2048
	maxTags    = 50
)

// examineOperation summarizes one operation.
func (b *builder) examineOperation(o *operation) setting.Operation {
	found := setting.Operation{
		Name: o.name, OperationID: truncateText(o.id(), maxAddress), Method: o.method, Path: truncateText(o.path, maxAddress),
		Summary: trimTitle(o.object.get("summary").str()), ReadOnly: IsSafeMethod(o.method), Deprecated: o.object.get("deprecated").isTrue(),
	}
	for _, tag := range o.object.get("tags").strings() {
		if len(found.Tags) < maxTags {
			found.Tags = append(found.Tags, truncateText(tag, maxTitle))
		}
	}
	built, err := b.buildTool(o)
	if err != nil {
		found.Skipped = Reason(err)
		return found
	}
	found.InputSchema, found.OutputSchema = built.definition.InputSchema, built.definition.OutputSchema
	found.NoOutputSchema = plain.Line(built.noOutput, maxReason)
	return found
}

// securitySchemes returns the security schemes that a document declares.
func securitySchemes(doc *document) []setting.SecurityScheme {
	list := []setting.SecurityScheme{}
	declared := doc.root.get("components").get("securitySchemes")
	for i := range declared.all() {
		m := &declared.members[i]
		v, err := doc.followRef(&m.value)
		if err != nil || !v.is('{') || len(list) == maxServers {
			continue
		}
		scheme := setting.SecurityScheme{
			Name: truncateText(m.name, maxTitle), Type: truncateText(v.get("type").str(), maxTitle), Description: truncateText(v.get("description").str(), maxDescription),
			In: truncateText(v.get("in").str(), maxTitle), Parameter: truncateText(v.get("name").str(), maxTitle), Scheme: truncateText(strings.ToLower(v.get("scheme").str()), maxTitle),
			OpenIDConnectURL: truncateText(v.get("openIdConnectUrl").str(), maxAddress),
		}
		flows := v.get("flows").all()
		for j := range flows {
			f := &flows[j]
			flow := setting.OAuthFlow{
				Type:             truncateText(f.name, maxTitle),
				AuthorizationURL: truncateText(f.value.get("authorizationUrl").str(), maxAddress), TokenURL: truncateText(f.value.get("tokenUrl").str(), maxAddress),
			}
			for _, scope := range f.value.get("scopes").all() {
				flow.Scopes = append(flow.Scopes, truncateText(scope.name, maxTitle))
			}
			scheme.Flows = append(scheme.Flows, flow)
		}
		list = append(list, scheme)
	}
	return list
}

package manifest

// shape is the expected form of a value.
type shape struct {
	kind   kind
	fields map[string]shape // of an object
	of     *shape           // of the elements of a list, or of a dictionary
	secret bool             // a word that may stand in a variable or a file
	short  string           // of an object: the field that a single word stands for
	ignore bool             // not ours
	file   string           // of a word that is a URL or a path: the field for the text of the file
}

type kind int

const (
	word       kind = iota // a scalar, as it is written
	boolean                // true or false
	number                 // a whole number
	decimal                // a number that may have a fraction
	duration               // as Go writes them
	list                   // a sequence
	dictionary             // a mapping with any keys
	object                 // a mapping with known keys
	free                   // whatever JSON can say
)

func listOf(of shape) shape       { return shape{kind: list, of: &of} }
func dictionaryOf(of shape) shape { return shape{kind: dictionary, of: &of} }

// topShape is the shape of holdpoint.yaml.
func topShape() shape {
	return shape{kind: object, fields: map[string]shape{
		"server": {ignore: true},
		"skills": listOf(skillShape()),
		"agents": listOf(agentShape()),
		"rules":  listOf(ruleShape()),

		"policies": listOf(policyShape()),
	}}
}

// rulesOnly is the shape of holdpoint.yaml for readers of its rules.
func rulesOnly() shape {
	other := shape{ignore: true}
	return shape{kind: object, fields: map[string]shape{"server": other, "skills": other, "agents": other, "policies": other, "rules": listOf(ruleShape())}}
}

func ruleShape() shape {
	names := listOf(shape{})
	return shape{kind: object, fields: map[string]shape{
		"name": {}, "agents": names, "skills": names, "tools": names, "when": {}, "effect": {}, "mode": {}, "message": {}, "high_risk": {kind: boolean}, "policy": {}, "grants": {kind: boolean},
	}}
}

func policyShape() shape {
	names := listOf(shape{})
	line := shape{kind: object, fields: map[string]shape{"count": {kind: number}, "teams": names, "people": names}}
	return shape{kind: object, fields: map[string]shape{
		"name": {}, "any": listOf(shape{kind: object, fields: map[string]shape{"all": listOf(line)}}), "rejections": {kind: number},
		"approval_timeout": {kind: duration}, "approval_validity": {kind: duration}, "break_glass": {kind: boolean},
	}}
}

// ruleTestsShape is the shape of a file with tests of rules.
func ruleTestsShape() shape {
	flag := shape{kind: boolean}
	person := shape{kind: object, fields: map[string]shape{"id": {}, "email": {}, "name": {}, "groups": listOf(shape{})}}
	return shape{kind: object, fields: map[string]shape{
		"schema": dictionaryOf(shape{kind: free}),
		"tests": listOf(shape{kind: object, fields: map[string]shape{
			"name": {}, "rule": {}, "agent": {}, "skill": {}, "tool": {}, "arguments": {kind: free}, "now": {},
			"principal": person,
			"earlier": listOf(shape{kind: object, fields: map[string]shape{
				"ago": {}, "agent": {}, "skill": {}, "tool": {}, "arguments": {kind: free}, "principal": person, "other_conversation": flag,
			}}),
			"claimed":       {kind: object, fields: map[string]shape{"read_only": flag, "destructive": flag, "idempotent": flag, "open_world": flag}},
			"auto_approved": flag, "high_risk": flag, "matches": flag, "verdict": {},
		}}),
	}}
}

func skillShape() shape {
	secret := shape{secret: true}
	fields := map[string]shape{
		"name": {}, "transport": {}, "url": {},
		"command": listOf(shape{}),
		"env":     dictionaryOf(secret),
		"run_as":  {},
		"paths":   {kind: object, fields: map[string]shape{"read": listOf(shape{}), "write": listOf(shape{})}},
		"headers": dictionaryOf(secret),
		"identity_headers": {kind: object, short: "enabled", fields: map[string]shape{
			"enabled": {kind: boolean}, "agent": {}, "call": {}, "principal": {},
		}},
		"tools": dictionaryOf(shape{kind: object, fields: map[string]shape{
			"risk": {}, "idempotent": {kind: boolean}, "enabled": {kind: boolean}, "select": {}, "not_secret": listOf(shape{}), "grants": {kind: boolean}, "policy": {},
		}}),
		"oauth":      oauthShape(),
		"connection": {},
		"escalation": escalationShape(),
		"base_url":   {}, "spec": {file: "document"}, "include": filtersShape(), "exclude": filtersShape(),
		"endpoints": listOf(endpointShape()),
		"auth":      {kind: object, fields: map[string]shape{"type": {}, "in": {}, "name": {}, "username": {}, "secret": secret}},
		"preview":   {kind: boolean}, "output_schemas": {kind: boolean},
	}
	addSkillSettings(fields)
	return shape{kind: object, fields: fields}
}

// escalationShape are the steps of an escalation.
func escalationShape() shape {
	return listOf(shape{kind: object, fields: map[string]shape{"after": {}, "teams": listOf(shape{}), "people": listOf(shape{})}})
}

// filtersShape select operations of an HTTP API's document.
func filtersShape() shape {
	return listOf(shape{kind: object, fields: map[string]shape{"operation_id": {}, "tag": {}, "method": {}, "path": {}}})
}

// endpointShape is one of an HTTP API that has no document.
func endpointShape() shape {
	schema := shape{kind: free}
	return shape{kind: object, fields: map[string]shape{
		"name": {}, "title": {}, "description": {}, "method": {}, "path": {}, "body": {},
		"headers": dictionaryOf(shape{}), "input_schema": schema, "output_schema": schema,
		"parameters": dictionaryOf(shape{kind: object, fields: map[string]shape{
			"in": {}, "name": {}, "type": {}, "description": {}, "required": {kind: boolean}, "schema": schema,
		}}),
	}}
}

func oauthShape() shape {
	secret := shape{secret: true}
	return shape{kind: object, fields: map[string]shape{
		"grant": {}, "issuer": {}, "client_id": {}, "client_secret": secret,
		"auth_method": {}, "private_key": secret, "scopes": listOf(shape{}),
		"trust_origin": {kind: boolean}, "idp": {kind: object, fields: map[string]shape{"issuer": {}, "client_id": {}, "client_secret": secret}},
	}}
}

func agentShape() shape {
	fields := map[string]shape{
		"name": {}, "instructions": {},
		"model": {kind: object, fields: map[string]shape{
			"provider": {}, "name": {}, "base_url": {}, "api_key": {secret: true},
			"max_tokens": {kind: number}, "images": {kind: boolean}, "input_price": {kind: decimal}, "output_price": {kind: decimal},
		}},
		"limits": {kind: object, fields: map[string]shape{
			"calls_per_minute": {kind: number}, "concurrency": {kind: number}, "pending": {kind: number},
			"conversation_turns": {kind: number}, "conversation_tokens": {kind: number},
			"conversation_cost": {kind: decimal}, "conversation_time": {kind: duration},
		}},
		"escalation": escalationShape(),
		"skills": listOf(shape{kind: object, short: "skill", fields: map[string]shape{
			"skill": {}, "tools": listOf(shape{}), "prefix": {},
		}}),
	}
	addAgentSettings(fields)
	return shape{kind: object, fields: fields}
}

// tokenIssuer is an authorization server whose access tokens agents' endpoints take.
func tokenIssuer() shape {
	return shape{kind: object, fields: map[string]shape{
		"issuer": {}, "audience": {}, "identity_claim": {}, "scopes": listOf(shape{}), "agent_claim": {}, "agents": dictionaryOf(listOf(shape{})),
		"principal": {}, "service_clients": listOf(shape{}),
	}}
}

// identityProvider is one that people sign in with.
func identityProvider() shape {
	groups := listOf(shape{})
	return shape{kind: object, fields: map[string]shape{
		"name": {}, "issuer": {}, "client_id": {}, "client_secret": {secret: true},
		"scopes": listOf(shape{}), "groups_claim": {}, "identity_claim": {}, "trust_email": {kind: boolean}, "session": {kind: duration},
		"roles":         {kind: object, fields: map[string]shape{"reviewer": groups, "operator": groups}},
		"default_roles": listOf(shape{}),
		"teams":         {kind: object, fields: map[string]shape{"prefix": {}, "groups": dictionaryOf(groups)}},
	}}
}

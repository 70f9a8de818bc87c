package identity

// HasLostRights returns an SQL condition: the person was blocked, has none of the roles of people any more, or the credential that they used,
// a token or a session, was revoked. A credential that expired or signed out later was valid when it was used. person and credential are SQL
// expressions for ids; a null person has lost nothing.
func HasLostRights(person, credential string) string {
	const roles = `ARRAY['` + string(Reviewer) + `', '` + string(Operator) + `']`
	return `EXISTS (SELECT FROM people AS holder
			LEFT JOIN person_sessions AS via ON via.id = ` + credential + `
			LEFT JOIN person_tokens AS token ON token.id IN (` + credential + `, via.token_id)
		WHERE holder.id = ` + person + ` AND (holder.blocked_at IS NOT NULL OR token.revoked_at IS NOT NULL
			OR token.id IS NULL AND (via.id IS NOT NULL OR holder.issuer <> '` + LocalIssuer + `')
				AND NOT (coalesce(via.roles, '{}') || holder.claimed_roles || holder.granted_roles) && ` + roles + `))`
}

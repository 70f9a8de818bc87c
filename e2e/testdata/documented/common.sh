# What the scripts of the documentation's pages use.

# await_text BLOCK PROCESS TEXT waits until a block has printed a text.
await_text() {
  until grep -qF -- "$3" "$PRINTED/$1"; do
    kill -0 "$2" || { echo "the block ended without printing: $3" >&2; return 1; }
    sleep 0.1
  done
}

# newest_pending FIELD prints a field of the newest pending approval.
newest_pending() { holdpoint api GET '/approvals?status=pending&limit=1' --json | grep -o "\"$1\":\"[^\"]*" | head -1 | cut -d'"' -f4; }

# apply_world declares the skills and the agent that most pages speak of.
apply_world() {
  cat > world.yaml <<YAML
skills:
  - name: ledger
    transport: http
    url: $HOLDPOINT_URL/demo/skills/inbox/mcp
  - name: files
    transport: http
    url: $HOLDPOINT_URL/demo/skills/drive/mcp
    oauth: {grant: client_credentials, client_id: holdpoint, issuer: "$HOLDPOINT_URL/demo/auth"}
agents:
  - name: billing
    wait_budget: 1s
    model: {provider: scripted, name: clerk}
    skills: [ledger, files]
YAML
  holdpoint apply -f world.yaml
  holdpoint skill tools ledger --refresh
  holdpoint skill tools files --refresh
  AGENT_KEY=$(holdpoint agent key create billing)
  export AGENT_KEY
}

# park_call FILENAME parks a call of billing.
park_call() {
  curl -sS -H "Authorization: Bearer $AGENT_KEY" "$HOLDPOINT_URL/agents/billing/mcp" -d '{"jsonrpc":"2.0","id":1,"method":"tools/call",
    "params":{"name":"files__save_csv","arguments":{"filename":"'"$1"'","rows":[]}}}' | grep '"code":"pending"'
}

# invite_person NAME makes a person, and prints the id.
invite_person() {
  holdpoint invitation redeem "$(holdpoint invitation create --name "$1" --role reviewer --json | grep -o '"key":"[^"]*' | cut -d'"' -f4)" >&2
  holdpoint people list --json | grep -o "\"id\":\"[^\"]*\",\"name\":\"$1\"" | cut -d'"' -f4
}

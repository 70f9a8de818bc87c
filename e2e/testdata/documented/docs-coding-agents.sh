cat > holdpoint.yaml <<'YAML'
skills:
  - name: claude-code
    transport: gate
    host: claude-code
agents:
  - name: laptop
    skills: [claude-code]
YAML
mkdir -p ~/.config/opencode/plugins

cat > holdpoint.yaml <<'YAML'
agents:
  - name: edge-gateway
YAML

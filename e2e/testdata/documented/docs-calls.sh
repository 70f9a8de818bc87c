apply_world
holdpoint agent callback delete billing ops || true

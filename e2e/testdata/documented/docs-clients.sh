apply_world
holdpoint agent delete billing

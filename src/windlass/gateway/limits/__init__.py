"""Who may start a run now: rates and numbers, for one gateway or a fleet."""

"""Rate limits and run limits, for one gateway or a fleet."""

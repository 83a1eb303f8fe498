"""The peers of Windlass. Each executes a prompt with one tool, blocking and streaming."""

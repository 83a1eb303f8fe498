"""The peers: each runs one prompt with one tool to its end, blocking and streaming."""

"""The wire of Anthropic's Messages API, as a client and as a server."""

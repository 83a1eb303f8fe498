"""OpenAI Responses and Open Responses, as a client and as a server."""

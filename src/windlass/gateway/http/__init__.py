"""The HTTP layer: context, body, keys and errors of a request, and limits of connections."""

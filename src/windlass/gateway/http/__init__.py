"""The HTTP layer: context, body and errors of a request, and limits of connections."""

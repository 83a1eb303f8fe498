"""One HTTP exchange: its context, body, keys and errors, and the limits of a connection."""

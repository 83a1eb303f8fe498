"""The HTTP face: tools that run on the server, behind the wire that every client speaks."""

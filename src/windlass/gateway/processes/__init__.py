"""Several processes of one gateway: a supervisor, and the limits that its processes share."""

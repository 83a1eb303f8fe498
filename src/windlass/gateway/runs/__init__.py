"""The runs of a gateway: planning, storage, lookup and resumption."""

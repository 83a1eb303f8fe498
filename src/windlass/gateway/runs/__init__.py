"""The runs of a gateway: planned, stored, looked up, resumed."""

"""The one loop between a model and its tools."""

"""The gateway's endpoints, one module for each group of paths."""

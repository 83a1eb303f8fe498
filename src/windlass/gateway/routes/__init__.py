"""The endpoints, one module for each family."""

"""The models that a gateway serves, and the tools that each offers."""

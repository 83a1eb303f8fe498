"""Tools that run in workers, and calls that people make without a model."""

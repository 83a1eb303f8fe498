"""The models that clients may ask for, and the tools that each of them gets."""

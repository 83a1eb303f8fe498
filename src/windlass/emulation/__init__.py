"""Function calling for models that have none: a prompt that asks for calls, and a parser."""

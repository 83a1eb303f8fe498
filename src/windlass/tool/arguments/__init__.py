"""Validation of a model's argument text: values for the function, or errors for the model.

`by_signature` validates with a function's signature, `by_schema` with a declared JSON Schema. Both
first repair small mistakes (`coercion`) and write the same error messages (`problems`).
"""

"""Validation of a model's argument text: values for the function, or errors for the model.

`signature_validation` uses a function's signature, `schema_validation` a declared JSON Schema.
Both first repair small mistakes (`coercion`) and write the same error messages (`problems`).
"""

"""What becomes of a model's argument text: values for a function, or problems it can act on.

`signed` goes by a function's signature, `declared` by a JSON Schema that somebody else wrote. Both
first make what is nearly right right (`coercion`) and report in the same words (`problems`).
"""

"""The OpenAPI document of the gateway. `document` imports pydantic, so it is imported when used."""

"""The documents that describe the API, made from the declarations of its calls."""

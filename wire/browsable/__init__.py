"""The browsable API: views and forms of Django REST framework, made from the declarations of endpoints."""

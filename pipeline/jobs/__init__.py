"""The jobs, one module each. `manage.py pipeline` and the admin's schedules run them."""

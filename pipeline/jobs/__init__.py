"""The jobs, a module each: what `manage.py pipeline` and the schedules of the admin run."""

"""`manage.py topics`: topics at a shell."""

"""The operators' console: the admin's pages about the whole instance."""

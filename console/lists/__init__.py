"""One list for each kind of object, and the search over all."""

"""Consumer groups: the members of a group share the records of a topic."""

"""HTTP without a domain: authentication, caps, parsing, and the form of answers."""

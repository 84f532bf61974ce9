"""HTTP without a domain: who asks, what may come in, and how an answer looks."""

"""How events leave: the dispatcher of a worker takes batches under leases, and calls the callbacks."""

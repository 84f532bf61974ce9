"""The configuration of a gateway: its file, checked as a whole, and the tree of routers and clusters that the file describes."""

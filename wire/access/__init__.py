"""Who may call: hosts, origins, addresses, API keys, and the visitors of the admin."""

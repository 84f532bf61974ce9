"""The bus's endpoints, as Routemaster has them (docs/push.md)."""

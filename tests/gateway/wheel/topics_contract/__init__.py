"""A router that does what the header `x-do` says, and a filter that leaves its name on what passes."""

import asyncio

import msgspec

from gateway.api import Operation, PluginConfigError, Response
from gateway.blocks import scatter


class ContractConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    first_route: str
    shared: bool = False
    log: str | None = None  # a file: what was called, a line each

    def note(self, what):
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(what + "\n")


class ContractRouter:
    def __init__(self, config, topology):
        self.config, self.topology, self.seen = config, topology, 0

    async def on_request(self, operation, request, context):
        self.seen += 1
        do = (request.header(b"x-do") or b"").decode()
        if do == "raise":
            raise ValueError("a secret of the router")
        if do == "raise after a write":
            await context.send_request(context.any_node(self.config.first_route), request)
            raise ValueError("a secret of the router")
        if do == "refuse":
            return context.respond_with_error(request, PermissionError("a secret of the router"))
        if do == "close":
            return context.respond_with(Response(200, (), b"bye"), close_connection=True)
        if do == "close inner" and self.config.first_route == "two":
            return context.respond_with(Response(200, (), b"bye"), close_connection=True)
        if do == "stream":

            async def parts():
                for part in (b"one ", request.method.encode(), b" ", request.query.encode()):
                    yield part

            return context.respond_with(Response(200, [(b"content-type", b"text/plain")], parts()))
        if do == "replace":
            changed = request.replace(topic=request.query, method="GET", query="", body=b"")
            return context.respond_with(await context.send_request(context.any_node(self.config.first_route), changed))
        if do == "body":
            told = [(await request.body()).decode(), (await request.body()).decode(), request.path]
            return context.respond_with(Response.json(200, told))
        if do == "no reply":
            return context.respond_without_reply()
        if do == "slow":
            await asyncio.sleep(0.2)
        if do == "tell":
            node = context.any_node(self.config.first_route)
            told = {
                "operation": operation.value,
                "topic": request.topic,
                "session": context.session_id,
                "subject": context.authenticated_subject.name,
                "seen": self.seen,
                "addressed": context.virtual_node is not None,
                "equal": node == context.node_for_id(0) and hash(node) == hash(context.node_for_id(0)),
                "sealed": context.unseal("x", context.seal("x", [1, 2])),
            }
            return context.respond_with(Response.json(200, told))
        if do == "topology":
            found = await self.topology.topics(self.config.first_route, [request.topic])
            state = found[request.topic]
            if request.header(b"x-forget"):
                self.topology.invalidate_route(self.config.first_route)
            nodes = [each.state for each in self.topology.nodes(self.config.first_route)]
            return context.respond_with(
                Response.json(200, {"exists": state.exists, "head": state.head_seq, "nodes": nodes})
            )
        if do == "everywhere":
            answers = await scatter(context, dict.fromkeys(("one", "two"), request))
            return context.respond_with(Response.json(200, {route: each.status for route, each in answers.items()}))
        node = context.virtual_node or context.any_node(self.config.first_route)
        return context.respond_with(await context.send_request(node, request))

    def static_routes(self):
        return {}

    def close(self):
        self.config.note("router closed")


class ContractRouterFactory:
    """Does what the header `x-do` says."""

    def initialize(self, context, config: ContractConfig):
        if config.first_route not in context.route_names:
            raise PluginConfigError(f"firstRoute: route {config.first_route!r} does not exist")
        if config.shared:
            context.allow_shared_cluster_targets()
        assert "ContractRouter" in context.plugin_names("router")
        assert type(context.plugin_instance("router", "ContractRouter")).__name__ == "ContractRouterFactory"
        config.note(f"initialized {context.virtual_cluster_name} {context.router_name} {','.join(context.route_names)}")
        return config, context.topology_service()

    def create_router(self, context, data):
        data[0].note("router made")
        return ContractRouter(*data)

    def close(self, data):
        data[0].note("factory closed")


class LossyRouterFactory(ContractRouterFactory):
    """A ContractRouter that says that it loses promises."""

    breaks = {Operation.FOLLOW_WATCH: "a stream ends at each deploy", Operation.READ: "the order is lost"}


class FailingFactory:
    """Cannot be made."""

    def initialize(self, context, config: dict):
        raise KeyError("a fault of the plugin")

    def create_filter(self, context, data):
        raise NotImplementedError

    def close(self, data):
        pass


class TrailConfig(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    asks: bool = False


class Trail:
    def __init__(self, config):
        self.config, self.passed = config, 0

    async def on_request(self, operation, request, context):
        self.passed += 1
        trail = (request.header(b"x-trail") or b"") + self.config.name.encode()
        if request.header(b"x-stop") == self.config.name.encode():
            return Response(200, [(b"x-trail", trail), (b"x-back", b"")], b"stopped")
        if self.config.asks:
            plain = [each for each in request.headers if each[0] != b"x-do"]
            await context.send_request(request.replace(method="GET", path="/v0/health", headers=plain, body=b""))
        headers = [each for each in request.headers if each[0] != b"x-trail"]
        return request.replace(headers=[*headers, (b"x-trail", trail)])

    async def on_response(self, operation, response, context):
        back = (response.header(b"x-back") or b"") + self.config.name.encode()
        headers = [each for each in response.headers if each[0] != b"x-back"]
        passed = (f"x-passed-{self.config.name}".lower().encode(), b"%d" % self.passed)
        return response.replace(headers=[*headers, (b"x-back", back), passed])


class TrailFactory:
    """Leaves its name in `x-trail` of requests and in `x-back` of answers."""

    def initialize(self, context, config: TrailConfig):
        return config

    def create_filter(self, context, data):
        return Trail(data)

    def close(self, data):
        pass

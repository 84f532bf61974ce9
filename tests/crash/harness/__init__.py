"""A whole deployment under load, faults at random, and an oracle that says what they broke (`make crash`).

    plan        which faults come when: a seed says it all
    faults      what each of them does; processes, clock and disk are what they lay hands on
    topology    the topics and routers of the run
    load        who appends, deletes and moves cursors; readers follow by diff and by watch
    evidence    what was acked, and what each reader was shown: the recorders
    gateway     the gateway that half of the load goes through
    failover    two gateways, a spare and a witness: a run of its own (`make crash-failover`)
    moves       topics that move to another server: a run of its own (`make crash-moves`)
    bus         publishers and callbacks of the push bus
    webhooks    a webhook and its endpoint
    queues      producers and workers of queues
    members     members of a consumer group, as processes
    sites       a mirror, and the server at its other end
    emits       sessions that emit in their transactions
    captures    sessions that change the rows of a captured table
    sockets     a writer and a reader over WebSockets
    console     an operator who looks at the pages
    healing     whether everything works again, tried after each fault
    storage     what is in the log at the end, looked at from all sides
    oracle      what the evidence has to obey; forwarding, the other modules *_oracle are parts of it
                gateway_oracle is that of failover and moves

A service manager would start the supervisor again; the run does that, and helps with nothing else.
"""

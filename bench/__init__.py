"""The benchmark: a real server as `make run` starts it, under load from outside, compared with the raw limit of the same run."""

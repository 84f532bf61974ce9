"""The benchmark: a real server as `make run` starts it, driven from outside, beside the raw limit of the same run."""

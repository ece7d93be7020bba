"""What bounds runs: the fair limiter, time-outs, background work."""

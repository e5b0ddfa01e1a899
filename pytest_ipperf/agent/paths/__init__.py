"""Network paths: routes, MTU, rate, reachability, counters, captures and clocks."""

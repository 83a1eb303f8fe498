"""What an operator sees of the gateway: metrics, traces and log lines."""

"""The numbered event log of a run, and the runs that a client knows."""

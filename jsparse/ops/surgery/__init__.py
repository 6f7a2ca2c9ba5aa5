"""Pattern surgery: functions that change which entries a tensor stores. Capacities are known during tracing."""

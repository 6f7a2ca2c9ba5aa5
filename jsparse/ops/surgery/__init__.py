"""Pattern surgery: functions that change which entries a tensor stores, at a capacity that is known while tracing."""

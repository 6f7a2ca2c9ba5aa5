"""The sparse tensor: values on a pattern, as a pytree. `jsparse.ops` has its operations, and installs its methods."""

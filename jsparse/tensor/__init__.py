"""The tensor: values on a pattern, as a pytree. What is computed with it stands above (`jsparse.ops`)."""

"""Other libraries, served by our primitives."""

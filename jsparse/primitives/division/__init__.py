"""How devices divide an operation among them: which axes they may divide, and what each device computes."""

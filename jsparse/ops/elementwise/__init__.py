"""Elementwise operations: functions of stored values, comparisons, and operators with broadcasting."""

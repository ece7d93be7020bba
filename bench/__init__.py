"""Measurements of the deployed platform; ``make bench`` prints them as tables."""

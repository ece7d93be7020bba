"""Tieline."""

"""The hosted page where end users connect their accounts."""

"""What tests use to act as users do: kubectl, HTTP, and patience."""

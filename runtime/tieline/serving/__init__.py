"""The server that runs integration code: webhooks, health and limits."""

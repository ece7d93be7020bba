"""The server that runs integration code: webhooks, schedules, health and limits."""

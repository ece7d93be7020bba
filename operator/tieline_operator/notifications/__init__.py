"""Delivers notifications: by SMTP, by signed webhooks, and to Slack."""

"""NotificationChannel and Notification: what is wrong in an environment, and what was told about it."""

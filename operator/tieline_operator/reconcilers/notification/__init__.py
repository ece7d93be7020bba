"""NotificationChannel and Notification: what is wrong in an environment, and what was reported about it."""

"""The console's back end: its files, signing in, and sessions in sealed cookies. Tokens never reach the browser."""

"""What is right and wrong with auth schemes and credentials: pure functions that operator and API share."""

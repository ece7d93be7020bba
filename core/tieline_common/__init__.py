"""Building blocks that platform and pods share. Standard library only; imports no other package of Tieline."""

"""Leader election, event dispatch and the reconcile loop."""

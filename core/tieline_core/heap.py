"""What the garbage collector need not look at."""

import gc


def settle() -> None:
    """Has the collector leave alone what is there by now: for when the caches have been filled.

    A full collection looks at every object, half a second for the caches of 2,000 projects, and nothing else happens
    meanwhile. What is in caches has no cycles: it goes when nobody refers to it any more, as before.
    """
    gc.collect()
    gc.freeze()

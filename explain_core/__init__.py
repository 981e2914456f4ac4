"""Incremental explanations of online models: iPFI, iSAGE, permutation importance and DBShap.

Numbers in, numbers out: nothing in this package touches a network, a file or a clock.
"""

"""Twins: the step that was traced, once more, with its sums cut where a candidate's layout cuts them.

cuts.py has the class that is entered, whose parts lie in a file each: plan.py which sums are cut and where, moves.py
how parts are moved and added, shares.py which tokens and words a rank has; operations.py, attention.py, losses.py,
alike.py and units.py the sums. sites.py has functions with a way back of their own, layout.py reads the layout.
"""

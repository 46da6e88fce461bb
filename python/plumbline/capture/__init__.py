"""What plumbline.trace does while a step is traced.

run.py has the class, whose parts lie in a file each: hooks.py what modules take and give, taking.py copies and files,
placing.py how tensors lie over ranks, optimizers.py gradients and updates, made_by.py which operation made a tensor,
choices.py those of routers, patches.py what stands in place of PyTorch's functions, rewriting.py and other_runs.py
steps that are run otherwise. The other files have functions and no state.
"""

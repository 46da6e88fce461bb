"""Axes of a layout, by how their names begin, and their sizes."""
import math

BATCH_AXES = ("dp", "data", "fsdp", "hsdp", "replicate")  # axes over which a batch is dealt, by how names begin
CONTEXT_AXES = ("cp", "context")  # axes over which sequences are dealt all through the model, by how names begin
EXPERT_AXES = ("ep", "expert")  # axes over which a batch is dealt, and experts: each rank has some, for the words of all
STAGE_AXES = ("pp", "pipe", "stage")  # axes whose ranks each have layers of their own, by how names begin


def sizes_of(layout, ranks):
    """Of each axis, by name: those of a DeviceMesh, or what start() is told."""
    if hasattr(layout, "mesh_dim_names"):
        sizes = layout.mesh.shape
        layout = dict(zip(layout.mesh_dim_names or [f"axis{n}" for n in range(len(sizes))], map(int, sizes)))
    mesh = dict(layout or {"rank": ranks})
    if math.prod(mesh.values()) != ranks:
        if ranks == 1:
            return {axis: 1 for axis in mesh}
        raise ValueError(f"the layout {mesh} has {math.prod(mesh.values())} ranks, the run {ranks}: "
                         "give start() the axes of all of them")
    return mesh

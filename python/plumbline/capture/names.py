"""How modules and parameters are called: without their wrappers, and by their number in the whole model."""
import re

WRAPPERS = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")
EXPERT = re.compile(r"experts\.\d+(\.|/|$)")  # in the name of what is one expert's
LOCAL_EXPERTS = ("local_experts", "deepspeed_experts")  # lists of a rank's own, which count from 0
PERTURBED = "perturbed"  # in place of a twin's number


def plain_name(name):
    for wrapper in WRAPPERS:
        name = name.replace("." + wrapper, ".")
        while name.startswith(wrapper):
            name = name[len(wrapper):]
    return name


def numbers_in_the_whole(model, place, plain=plain_name):
    """Layers that a stage of a pipeline counts from 0 are called by their number in the whole model, where they say it
    (Megatron's layer_number, from 1); experts that each rank counts from 0, by the rank's place among all that have some.
    """
    layers, experts = {}, {}
    for name, module in model.named_modules():
        name = plain(name + ".")
        above, _, number = name[:-1].rpartition(".")
        if number.isdigit() and isinstance(getattr(module, "layer_number", None), int):
            layers[name] = f"{above}.{module.layer_number - 1}."
        if place and name[:-1].endswith(LOCAL_EXPERTS):
            experts.update({f"{name}{n}.": f"{name}{n + place * len(module)}." for n in range(len(module))})

    def whole(name):
        for numbers in experts, layers:
            own = next((own for own in numbers if name.startswith(own)), None)
            name = name if own is None else numbers[own] + name[len(own):]
        return name
    return whole


def numbered(name, tensors):
    return [(name if n == 0 else f"{name}.{n}", t) for n, t in enumerate(tensors)]


def micro_batches(names):
    return len({name.partition("/")[0] for name in names if re.match(r"m\d+/", name)})

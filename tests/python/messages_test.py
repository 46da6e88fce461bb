"""Collectives of two Gloo processes: is each recorded, is the run untouched, and is a library found that adds wrongly?

    messages_test.py PLUMB
"""
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed as dist
    import torch.nn as nn
except (ImportError, OSError) as wrong:
    print(f"skipped: PyTorch cannot be imported ({wrong}); ./run test torch installs it")
    sys.exit(77)

import plumbline.trace as plumb

OPS = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter")  # of Gloo in every version
OLD = int(torch.__version__.split(".")[0]) < 2
LATER = ("all_gather", "reduce_scatter", "all_to_all")  # into one tensor, of Gloo in the newest


def collectives(x, rank):
    """What a program sends; each result is returned."""
    out, late = [], None
    for dtype in torch.float32, torch.float16 if OLD else torch.bfloat16:  # of which the Gloo of 1.13 knows nothing
        y = x.to(dtype)
        dist.all_reduce(y)
        out.append(y)
    most = x.clone()
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    late = x.clone()
    work = dist.all_reduce(late, async_op=True)
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x)
    work.wait()
    root, sent, dealt = x.clone(), x.clone(), torch.empty_like(x)
    dist.reduce(root, 1)
    dist.broadcast(sent, 1)
    dist.gather(x, [torch.empty_like(x) for _ in range(2)] if rank == 0 else None, 0)
    dist.scatter(dealt, [x, x + 1] if rank == 0 else None, 0)
    return [*out, most, late, *parts, sent, dealt] + ([root] if rank == 1 else [])


def in_later_ones(x):
    from torch.distributed import _functional_collectives as functional

    whole, share, dealt = x.new_empty(2 * len(x), 4), x.new_empty(len(x) // 2, 4), torch.empty_like(x)
    dist.all_gather_into_tensor(whole, x)
    dist.reduce_scatter_tensor(share, x)
    dist.all_to_all_single(dealt, x)
    group = dist.group.WORLD
    told = functional.all_reduce(x, "sum", group), functional.all_gather_tensor(x, 0, group)
    return [whole, share, dealt, *(y + 0 for y in told)]


def rank_of_a_job(folder, how):
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    if how == "wrong":  # a library that loses a little, on one rank
        own = dist.ProcessGroup.allreduce

        def allreduce(group, tensors, options):
            work = own(group, tensors, options)
            work.wait()
            if rank == 1:
                tensors[0].mul_(1 + 2 ** -6)
            return work
        dist.ProcessGroup.allreduce = allreduce
    torch.manual_seed(1)
    model = nn.Linear(4, 4)
    torch.manual_seed(1 + rank)
    x = torch.randn(6, 4)
    plumb.start(model, os.path.join(folder, "run"), layout={"dp": 2})
    with plumb.step():
        model(torch.ones(6, 4)).sum().backward()
        got = collectives(x, rank) + (in_later_ones(x) if how == "later" else [])
        if how == "lost":
            dist.all_reduce(x.clone(), async_op=True)  # nobody waits for it
    got += collectives(x, rank)  # behind the step, and not recorded
    dist.barrier()
    torch.save(got, os.path.join(folder, f"got-{rank}.pt"))
    dist.destroy_process_group()


def job(how="", messages="1"):
    """Its folder: what ranks got, and their trace."""
    folder = tempfile.mkdtemp()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, folder, how], env={
        **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "PLUMB_TRACE": "1", "PLUMB_MESSAGES": messages, "OMP_NUM_THREADS": "1"}) for rank in range(2)]
    if any([one.wait(300) for one in ranks]):
        raise AssertionError("a rank failed")
    return folder


def calls(folder, rank):
    with open(os.path.join(folder, f"run/step_000001/messages_{rank:05d}.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    texts = header["__metadata__"]
    return [json.loads(texts[str(n)]) for n in range(len(texts))]


def judged(folder):
    ran = subprocess.run([PLUMB, "replay", os.path.join(folder, "run"), "--json"], capture_output=True, text=True)
    if not ran.stdout:
        raise AssertionError(ran.stderr)
    seen = json.loads(ran.stdout)
    return seen, {each["id"]: each["ratio"] for each in seen["tensors"] if each["id"].startswith("messages/")}


class Messages(unittest.TestCase):
    def test_of_a_healthy_job_are_what_ranks_gave_and_the_job_is_untouched(self):
        folder, plain = job(), job(messages="0")
        self.assertFalse(os.path.exists(os.path.join(plain, "run/step_000001/messages_00000.safetensors")))
        for rank in range(2):
            one, other = (torch.load(os.path.join(of, f"got-{rank}.pt")) for of in (folder, plain))
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(one, other)) and len(one) == len(other))
            self.assertLessEqual(set(OPS), {call["op"] for call in calls(folder, rank)})
            self.assertEqual({"messages_test.py"}, {call["at"].partition(":")[0] for call in calls(folder, rank)})
        seen, ratios = judged(folder)
        self.assertEqual(9, len(ratios), ratios)
        self.assertTrue(all(ratio <= 1 for ratio in ratios.values()), ratios)
        self.assertEqual([], [f for f in seen["findings"] if f["id"].startswith("messages/")])

    @unittest.skipIf(OLD, "PyTorch 1.13 has no such functions")
    def test_by_later_functions_and_by_those_of_dtensor_are_seen_too(self):
        folder = job("later")
        _, ratios = judged(folder)
        self.assertEqual(14, len(ratios), ratios)
        self.assertTrue(all(ratio <= 1 for ratio in ratios.values()), ratios)
        self.assertLessEqual(set(LATER), {call["op"] for call in calls(folder, 0)})

    def test_of_a_library_that_adds_wrongly_are_found_on_its_rank(self):
        seen, ratios = judged(job("wrong"))
        found = {f["id"]: f["detail"] for f in seen["findings"] if f["id"].startswith("messages/")}
        self.assertEqual({"messages/all_reduce"}, {id.partition(" ")[0] for id in found})
        self.assertEqual(4, len(found), found)
        self.assertTrue(all("that rank 1 got" in detail for detail in found.values()), found)
        self.assertEqual(1, seen["exit_code"])
        self.assertTrue(seen["blamed"].startswith("messages/all_reduce 1 "), seen["blamed"])

    def test_are_judged_by_check_where_replay_is_asked_for(self):
        healthy, wrong = (os.path.join(job(how), "run") for how in ("", "wrong"))
        check = lambda *more: subprocess.run([PLUMB, "check", healthy, *more], capture_output=True, text=True)
        found = check(wrong, "--rule", "replay")
        self.assertEqual(1, found.returncode, found.stdout + found.stderr)
        self.assertIn("blamed: messages/all_reduce 1 of ranks 0, 1", found.stdout)
        self.assertIn("replay judges 9 collectives of the candidate", found.stdout)
        self.assertNotIn("messages/broadcast", found.stdout)
        by_size = check(wrong, "--rule", "flat")
        self.assertNotIn("messages/", by_size.stdout)
        self.assertIn("the candidate's collectives are not judged", by_size.stdout)

    def test_that_nobody_waited_for_are_said_to_be_not_judged(self):
        seen, ratios = judged(job("lost"))
        self.assertEqual(9, len(ratios), ratios)
        self.assertEqual(1, sum("nobody waited" in why for why in seen["not_judged"]), seen["not_judged"])


if __name__ == "__main__":
    if "RANK" in os.environ:
        rank_of_a_job(*sys.argv[1:3])
    else:
        PLUMB = sys.argv.pop(1)
        unittest.main()

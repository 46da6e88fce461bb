"""Traces of a program that is not plumb's, by the standard library alone: a reference, four twins, and on eight ranks (two
stages, two replicas, tensor parallel by two) a healthy candidate and three faulty ones.      write_traces.py FOLDER

The table of words is the head, too; two queries share a key; query, key and value lie fused; each replica keeps half of a
flat buffer of Adam's first moments. The error is squared, and the residual stream alone carries gradients back.
"""
import math, os, random, struct, sys
from plumbline.write import replicate, shard, stored, write_manifest, write_rank

TOKENS, WIDTH, WORDS, HEAD, FUSED = 32, 32, 62, 4, [32, 16, 16]  # FUSED: rows of query, key and value

def bf16(v):  # to the nearest
    bits = struct.unpack("<I", struct.pack("<f", v))[0]
    return struct.unpack("<f", struct.pack("<I", bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000))[0]

def joined(parts, twin):  # a sum of parts that travel in BF16; in a twin about an ulp goes from one to the other
    move = random.uniform(-2, 2) * math.ldexp(1, math.frexp(max(map(abs, parts)))[1] - 8) if twin else 0
    return bf16(sum(map(bf16, [parts[0] + move, parts[1] - move]))) if len(parts) > 1 else bf16(parts[0])

def product(a, b, ways=1, twin=False):  # rows of a times rows of b, the terms summed up in so many parts
    n = len(b[0]) // ways
    return [[joined([math.fsum(map(float.__mul__, x[i * n:][:n], y[i * n:][:n])) for i in range(ways)], twin)
             for y in b] for x in a]

def turned(m):
    return [list(column) for column in zip(*m)]

def plus(a, b):
    return [[bf16(p + q) for p, q in zip(*rows)] for rows in zip(a, b)]

def attention(fused, key_of):
    head = lambda t, first: fused[t][first:first + HEAD]
    out = [[] for _ in fused]
    for t in range(TOKENS):
        for h in range(8):
            k, past = FUSED[0] + key_of(h) * HEAD, range(t - t % (TOKENS // 2), t + 1)  # a replica has a sequence
            e = [math.exp(math.fsum(map(float.__mul__, head(t, h * HEAD), head(s, k))) / 2) for s in past]
            out[t] += [bf16(math.fsum(map(float.__mul__, e, v)) / sum(e)) for v in zip(*(head(s, k + 16) for s in past))]
    return out

def step(ids, table, layers, ways=1, twin=False, bug=None):  # what is made, in its order
    made, x = {}, [table[i] for i in ids]
    for n, (qkv, proj) in enumerate(layers):
        made[f"layers.{n}.qkv/out"] = product(x, qkv)
        key_of = (lambda h: h % 4) if bug == "heads" and n == 1 else (lambda h: h // 2)
        made[f"layers.{n}.attn/out"] = attention(made[f"layers.{n}.qkv/out"], key_of)
        made[f"layers.{n}/out"] = x = plus(x, product(made[f"layers.{n}.attn/out"], proj, ways, twin))
    made["logits"] = product(x, table)
    wrong = [[bf16(v - (w == ids[t - 1])) for w, v in enumerate(row)] for t, row in enumerate(made["logits"])]
    made["layers.1/grad_out"] = back = product(wrong, turned(table), ways, twin)
    for n in (1, 0):
        made[f"layers.{n}.proj/grad"] = product(turned(back), turned(made[f"layers.{n}.attn/out"]), ways, twin)
    hot = [[float(i == w) for i in ids] for w in range(WORDS)]
    of_table, of_head = product(hot, turned(back), ways, twin), product(turned(wrong), turned(x), ways, twin)
    made["table/grad"] = plus(of_table, of_head)
    for name in ("table", "layers.0.proj", "layers.1.proj"):
        made[name + "/exp_avg"] = [[v / 8 for v in row] for row in made[name + "/grad"]]
    return made, {0: of_table, 1: of_head}

# How it lies. An axis that is not named: where it is found, on one stage.
DEALT, EACH = shard("dp", 0), replicate("dp")  # tokens; weights
LIES = {"ids": [DEALT, replicate("tp")], "table": [replicate("pp"), EACH, shard("tp", 0)],
        "qkv": [EACH, shard("tp", 0, groups=FUSED)], "proj": [EACH, shard("tp", 1)], "logits": [DEALT, shard("tp", 1)],
        "qkv/out": [DEALT, shard("tp", 1, groups=FUSED)], "attn/out": [DEALT, shard("tp", 1)],
        "out": [DEALT, replicate("tp")], "grad_out": [DEALT, replicate("tp")]}
LIES.update({name + "/grad": LIES[name] for name in ("table", "proj")})

def lies(name):  # without "layers.0." or "layers.0/"
    return LIES[name[9:] if name.startswith("layers") else name]

def cut(m, name, at, mesh):  # what the rank at this place of the mesh has
    for split in lies(name):
        if split["kind"] == "shard":
            m, mine, first = turned(m) if split["dim"] else m, [], 0
            for size in split.get("groups", [len(m)]):
                share = size // mesh[split["axis"]]
                mine, first = mine + m[first + share * at[split["axis"]]:][:share], first + size
            m = turned(mine) if split["dim"] else mine
    return m

def moments(made, names, at, mesh, late):  # a flat buffer of the stage's weights, of which each replica keeps a part
    flat = [(name, r, c) for name in names for r, row in enumerate(cut(made[name + "/grad"], name, at, mesh))
            for c in range(len(row))]
    share, out = len(flat) // mesh["dp"], {}
    for name, r, c in flat[at["dp"] * share + late:][:share]:
        row, column = (r + at["tp"] * WORDS // 2, c) if name == "table" else (r, c + at["tp"] * WIDTH // 2)
        values, blocks = out.setdefault(name + "/exp_avg", ([], []))
        if not c or not blocks:  # rows are pieces
            blocks.append({"global": [row, column], "local": [0, len(values)], "size": [1, 0]})
        blocks[-1]["size"][1] += 1
        values.append(made[name + "/exp_avg"][row][column])
    return {id: stored("F32", [1, len(v)], v, shape=[len(made[id]), len(made[id][0])], offsets=b, phase="reduce",
                       order=99, format="bf16") for id, (v, b) in out.items()}

def write(folder, given, mesh, bug=None, **how):
    made, of_stage = step(*given, bug=bug, **how)
    weights = {"ids": [[i] for i in given[0]], "table": given[1]}
    for n, (qkv, proj) in enumerate(given[2]):
        weights.update({f"layers.{n}.qkv": qkv, f"layers.{n}.proj": proj})
    write_manifest(folder, producer="forty-lines", ranks=math.prod(mesh.values()), steps=[1], mesh=mesh,
                   must_agree={"model": "toy"})
    for rank in range(math.prod(mesh.values())):
        at = {"pp": rank // 4, "dp": rank // 2 % 2, "tp": rank % 2}
        stages = [0, 1] if mesh["pp"] == 1 else [at["pp"]]
        tensors = {}
        for order, (name, value) in enumerate([*weights.items(), *made.items()]):
            n = int(name[7]) if name.startswith("layers") else 1 if name == "logits" else None
            if name.endswith("exp_avg") or n not in (None, *stages):
                continue
            value = of_stage[at["pp"]] if bug == "tied" and name == "table/grad" else value
            mine = cut(value, name, at, mesh)
            phase = "reduce" if name.endswith("/grad") else "backward" if name.endswith("grad_out") else "forward"
            tensors[name] = stored("F32", [len(mine), len(mine[0])], sum(mine, []), shape=[len(value), len(value[0])],
                                   placements=lies(name), order=order + 1, phase=phase, format="bf16",
                                   role="given" if name in weights else "value")
        of = ["table", *(f"layers.{n}.proj" for n in stages)]
        tensors.update(moments(made, of, at, mesh, late=8 if bug == "slice" and at["dp"] else 0))
        write_rank(folder, 1, rank, tensors)

def main(folder):
    random.seed(1)
    drawn = lambda rows, columns: [[bf16(random.gauss(0, .2)) for _ in range(columns)] for _ in range(rows)]
    given = [random.randrange(WORDS) for _ in range(TOKENS)], drawn(WORDS, WIDTH), [
        (drawn(sum(FUSED), WIDTH), drawn(WIDTH, WIDTH)) for _ in range(2)]
    one, eight = {"pp": 1, "dp": 1, "tp": 1}, {"pp": 2, "dp": 2, "tp": 2}
    write(os.path.join(folder, "reference"), given, one)
    for k in range(4):
        write(os.path.join(folder, f"twin{k + 1}"), given, one, ways=2, twin=True)
    for name in ("healthy", "heads", "tied", "slice"):
        write(os.path.join(folder, name), given, eight, ways=2, bug=name)

if __name__ == "__main__":
    main(sys.argv[1])

"""check_jax.py CASE: JAX over libposeidon on the ranks of this job, beside JAX on one process with the whole batch."""
import os
import sys

import jax
import jax.numpy as jnp
import numpy

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "python"))
import poseidon.jax

draw = numpy.random.default_rng(1)
data, labels = draw.normal(size=(24, 9)).astype("f4"), draw.normal(size=(24, 3)).astype("f4")


def start(seed):
    draw = numpy.random.default_rng(seed)
    sizes = (9, 16, 8, 3)
    return [{"w": jnp.asarray(draw.normal(size=(a, b)) / a ** 0.5, "float32"), "b": jnp.zeros(b, "float32")}
            for a, b in zip(sizes, sizes[1:])]


def loss_of(params, x, y):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return ((x @ params[-1]["w"] + params[-1]["b"] - y) ** 2).mean()


def train(params, x, y, watch, mean, steps=30):
    @jax.jit
    def step(params):
        loss, grads = jax.value_and_grad(lambda p: loss_of(watch(p), x, y))(params)
        return loss, jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, mean(grads))

    for _ in range(steps):
        loss, params = step(params)
    return float(loss), params


rank, size = poseidon.jax.rank(), poseidon.jax.size()
if sys.argv[1] == "types":  # what is refused is closed, and a program that goes on needs no close and no finalize
    try:
        poseidon.jax.Ranks([jnp.zeros(3, "float32"), jnp.zeros(3, "int32")])
    except TypeError as error:
        os.write(1, f"{error}\n".encode())  # in one piece, which no other rank's can part
    ranks = poseidon.jax.Ranks([jnp.zeros((2, 0), "float32"), jnp.zeros(0, "float32"), jnp.ones(3)], options="stall-timeout=none")
    for step in range(2 + (rank if "uneven" in sys.argv else 0)):
        means = ranks.mean(jax.grad(lambda p: (1 + rank) * sum(leaf.sum() for leaf in ranks.watch(p)))(ranks.params))
        assert [m.shape for m in means] == [(2, 0), (0,), (3,)] and numpy.allclose(means[2], (size + 1) / 2)
    sys.exit(0)
if sys.argv[1] == "state":  # ten steps, once with other Ranks half-way: to the same bits with the state, and to others without
    ends, lossy = [], {"comm": "lowrank:1", "options": "lowrank-warmup=0,hierarchy=off"}
    for breaks, keeps in (False, False), (True, True), (True, False):
        ranks = poseidon.jax.Ranks(start(rank), **lossy)
        params = ranks.params
        for half in range(2):
            if half and breaks:
                state = ranks.state()
                assert bool(state) == (rank == 0)
                ranks.close()
                ranks = poseidon.jax.Ranks(params, state=(state or None) if keeps else None, **lossy)  # None: as rank 0 alone reads
                assert ranks.state() == state or not keeps
            params = train(params, data[rank::size], labels[rank::size], ranks.watch, ranks.mean, 5)[1]
        ranks.close()
        ends.append(jax.tree_util.tree_leaves(params))
    poseidon.jax.finalize()
    same = [all(map(numpy.array_equal, end, ends[0])) for end in ends[1:]]
    sys.exit(0 if same == [True, False] else f"with the state the same: {same[0]}, without: {same[1]}")
ranks = poseidon.jax.Ranks(start(rank), comm=sys.argv[1], options=",".join(sys.argv[2:]))  # rank 0's start is everybody's
loss, params = train(ranks.params, data[rank::size], labels[rank::size], ranks.watch, ranks.mean)
whole_loss, whole = train(start(0), data, labels, lambda p: p, lambda g: g)
apart = max(float(abs(a - b).max()) for a, b in zip(*map(jax.tree_util.tree_leaves, (params, whole))))
alone = train(start(0), data[rank::size], labels[rank::size], lambda p: p, lambda g: g)[1]
moved = max(float(abs(a - b).max()) for a, b in zip(*map(jax.tree_util.tree_leaves, (params, alone))))
print(f"rank {rank}: {apart:.3g} from one process; {moved:.3g} from this rank alone; {ranks.advice()}")
ranks.close()
poseidon.jax.finalize()
assert whole_loss < 1 and apart < 2e-6 and (size == 1 or moved > 1e-3), (whole_loss, apart, moved)

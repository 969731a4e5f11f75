# SPDX-License-Identifier: Apache-2.0
"""JAX's collectives over the GPUs of one process, which XLA makes of NCCL's calls: shard_map and pmap, psum, pmax,
all_gather, psum_scatter, ppermute, all_to_all, and a training step with sharded data. JAX: pip install
"jax[cuda13]" (or "jax[cuda12]"). Usage: jax_collectives.py [GPUS]"""
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from client_values import must, value

try:
    shard_map = jax.shard_map
except AttributeError:
    from jax.experimental.shard_map import shard_map


def equal(got, wanted, what):
    must(np.array_equal(np.asarray(got, dtype=np.float64), np.asarray(wanted, dtype=np.float64)),
         "%s: got %s, wanted %s" % (what, got, wanted))


def over(mesh, f, x, out=P("x")):
    """@f on each device's rows of @x."""
    rows = jax.device_put(x, NamedSharding(mesh, P("x")))
    return jax.jit(shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out))(rows)


def known(mesh, n, dtype):
    """Whole numbers, so that results are exact."""
    x = np.arange(n * n * 6).reshape(n, n * 6) % 7
    each = jnp.asarray(x, dtype=dtype)
    equal(over(mesh, lambda v: lax.psum(v, "x"), each, P()), x.sum(0, keepdims=True), "psum")
    equal(over(mesh, lambda v: lax.pmax(v, "x"), each, P()), x.max(0, keepdims=True), "pmax")
    equal(over(mesh, lambda v: lax.pmin(v, "x"), each, P()), x.min(0, keepdims=True), "pmin")
    equal(over(mesh, lambda v: lax.all_gather(v, "x", tiled=True), each), np.tile(x, (n, 1)), "all_gather")
    equal(over(mesh, lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True), each),
          x.sum(0).reshape(n, 6), "psum_scatter")
    equal(over(mesh, lambda v: lax.ppermute(v, "x", [(i, (i + 1) % n) for i in range(n)]), each),
          np.roll(x, 1, axis=0), "ppermute")
    equal(over(mesh, lambda v: lax.all_to_all(v, "x", split_axis=1, concat_axis=0, tiled=True), each),
          x.reshape(n, n, 6).transpose(1, 0, 2).reshape(n * n, 6), "all_to_all")


def mapped(devices, n):
    x = np.arange(n * 5, dtype=np.float32).reshape(n, 5)
    total = jax.pmap(lambda v: lax.psum(v, "i"), axis_name="i", devices=devices)(x)
    equal(total, np.tile(x.sum(0), (n, 1)), "psum in pmap")
    mean = jax.pmap(lambda v: lax.pmean(v, "i"), axis_name="i", devices=devices)(x)
    equal(mean, np.tile(x.sum(0) / n, (n, 1)), "pmean in pmap")


def training(mesh):
    """Data by rows on the devices, weights on all: XLA puts the all-reduces in."""
    rng = np.random.default_rng(9)
    rows, everywhere = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    w = jax.device_put(jnp.zeros((32, 4), jnp.float32), everywhere)
    wanted = rng.standard_normal((32, 4)).astype(np.float32)

    def loss_of(weights, x, y):
        return jnp.mean((x @ weights - y) ** 2)

    @jax.jit
    def step(weights, x, y):
        loss, grad = jax.value_and_grad(loss_of)(weights, x, y)
        return weights - 0.3 * grad, loss

    losses = []
    for _ in range(20):
        x = rng.standard_normal((64 * mesh.size, 32)).astype(np.float32)
        w, loss = step(w, jax.device_put(x, rows), jax.device_put(x @ wanted, rows))
        losses.append(float(loss))
    must(losses[-1] < losses[0], "the loss does not fall: %s" % losses)
    value("jax/training", losses, 1e-4)


def large(mesh, n):
    x = np.random.default_rng(4).standard_normal((n, 1_000_003)).astype(np.float32)
    total = np.asarray(over(mesh, lambda v: lax.psum(v, "x"), jnp.asarray(x), P()))
    value("jax/large", [total.sum(), total.max(), total[0, 4321], total[0, -1]], 1e-5)


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    devices = jax.devices("gpu")[:n]
    must(len(devices) == n, "%d GPUs wanted, %d here" % (n, len(devices)))
    mesh = Mesh(np.array(devices), ("x",))
    for dtype in (jnp.float32, jnp.bfloat16, jnp.int32, jnp.float16):
        known(mesh, n, dtype)
    mapped(devices, n)
    training(mesh)
    large(mesh, n)


main()

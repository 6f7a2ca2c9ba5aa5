"""`fuse` of random chains against the chains themselves, with all derivatives and batches."""

import jax
import pytest
from fusion.chains import random_chain
from fusion.check_chain import check_chain, loss
from fusion.measure import arrays_of_entries, arrays_of_features, compiled, is_one_chain, kernel_count
from programs.amount import amount

from jsparse.ops.fuse import fuse

CHAINS, BATCH = amount(5, 100), 5
COUNTED = amount(10, 40)


@pytest.mark.parametrize("first", range(0, CHAINS, BATCH))
def test_random_chains(first: int) -> None:
    for number in range(first, first + BATCH):
        check_chain(random_chain(0, number), number)


def test_chains_are_one_kernel_without_arrays_of_entries() -> None:
    counts = {"fused": 0, "one chain": 0, "no entries": 0, "gradients": 0}
    for number in range(COUNTED):
        chain = random_chain(1, number)
        with jax.enable_x64(True):
            operands = (chain.operands(chain.dtype), chain.tensors)
            fused, plain = compiled(fuse(chain.__call__), *operands), compiled(chain.__call__, *operands)
            one = is_one_chain(chain.__call__, *operands)
        assert kernel_count(fused) <= kernel_count(plain), chain.text
        counts["fused"] += kernel_count(fused) < kernel_count(plain)
        if one:
            counts["one chain"] += 1
            assert kernel_count(fused) == 1, chain.text
            if not chain.has_entries and not any(tensor.is_dynamic for tensor in chain.tensors):
                counts["no entries"] += 1
                assert not arrays_of_entries(fused, chain.counts), chain.text
        has_heads = chain.heads is not None or any("h" in name.partition("_")[2] for name in chain.arrays)
        if not has_heads:
            counts["gradients"] += 1
            with jax.enable_x64(True):
                slopes = compiled(jax.grad(loss(fuse(chain.__call__))), *operands)
            assert not arrays_of_features(slopes, chain.counts), chain.text
    least = {"gradients": 3 / 8, "fused": 3 / 4, "one chain": 3 / 20, "no entries": 1 / 20}
    assert all(counts[name] >= share * COUNTED for name, share in least.items()), counts

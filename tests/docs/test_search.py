"""The search of the site shows the page first that says what a reader looks for.

Where another page comes first, say the words in a heading of the page where a reader would look.
"""

import pytest
from docs.search import Search, sections, settings

FIRST = {
    "concepts/indexing": ["change one element"],
    "concepts/arrays": ["bfloat16", "dtype", "float16", "float64"],
    "concepts/cache": ["cache", "cache directory"],
    "concepts/formats": ["block sparse", "BSR", "COO to CSR", "CSR"],
    "concepts/fusion": ["fusion"],
    "concepts/glossary": ["glossary"],
    "concepts/indirect": ["scatter", "segment_sum"],
    "concepts/messages": ["out of memory"],
    "concepts/patterns": ["causal mask", "sliding window"],
    "concepts/platforms": ["GPU", "TPU"],
    "concepts/semirings": ["BFS", "min-plus", "semiring", "shortest path"],
    "concepts/static_or_dynamic": ["static or dynamic"],
    "concepts/tensors_as_trees": ["gradient accumulation"],
    "concepts/transformations": ["Hessian", "Jacobian", "remat", "scan", "vmap", "while_loop"],
    "get_started": ["install"],
    "how_to/attention_layers": ["attention mask", "grouped queries"],
    "how_to/building": ["normalize rows", "TF-IDF"],
    "how_to/coming_from": ["PyTorch Geometric", "SDDMM", "sparse matrix multiplication", "SpGEMM", "SpMM", "SpMV"],
    "how_to/debugging": ["jit recompilation", "profile"],
    "how_to/decoding": ["generate text", "KV cache", "long context", "rolling cache"],
    "how_to/embedding_gradients": ["Adam", "embedding", "lazy Adam"],
    "how_to/equinox": ["Equinox"],
    "how_to/explain": ["explain"],
    "how_to/export": ["export", "exported program"],
    "how_to/files": ["load", "Matrix Market", "pickle", "save"],
    "how_to/finite_elements": ["finite elements"],
    "how_to/graph_layers": ["GAT", "GCN", "GNN"],
    "how_to/graphs": ["edge_index", "graph from edges", "link prediction", "negative sampling", "subgraph"],
    "how_to/interop": ["convert from SciPy", "DLPack", "CuPy"],
    "how_to/linear_algebra": ["Cholesky", "conjugate gradient", "Lineax", "PageRank", "power iteration", "spsolve"],
    "how_to/meshes": ["multi-GPU", "shard_map"],
    "how_to/mini_batches": ["minibatch", "mini-batch", "neighbour sampling"],
    "how_to/processes": ["fork", "threads"],
    "how_to/pruning": ["prune"],
    "how_to/recommender": ["collaborative filtering", "recommender"],
    "how_to/sparse_layers": ["mixture of experts", "MoE"],
    "reference/products": ["einsum"],
}


@pytest.fixture(scope="module")
def search():
    for library in ("equinox", "flax", "lineax", "optax"):  # whose packages are in the reference, too
        pytest.importorskip(library)
    separator, boosts = settings()
    return Search(sections(boosts), separator)


@pytest.mark.parametrize("words, page", [(words, page) for page, queries in FIRST.items() for words in queries])
def test_first_hit(search, words, page):
    hits = [f"{address} {score:.3g}" for address, score in search.pages(words).values()]
    assert next(iter(search.pages(words)), None) == page, hits[:5]

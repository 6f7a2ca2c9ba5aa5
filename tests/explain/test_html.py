"""Explanations in notebooks: the HTML is well formed, and all text in it is escaped."""

from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

A = jsparse.asarray(np.eye(6, 5, dtype=np.float32) + 1, "csr")
X = jnp.ones((5, 3), jnp.float32)
VOID = ("br",)


class Page(HTMLParser):
    """The elements of a page, and the text below each `details` by its summary."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.folded = [], [], "", []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "details":
            self.folded.append(["", "", any(name == "open" for name, _ in attrs)])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open[-1:] == ["summary"]:
            self.folded[-1][0] += data
        elif self.open[-1:] == ["pre"]:
            self.folded[-1][1] += data


def folded(page):
    return {title: text for title, text, _ in page.folded}


STATEMENTS = {
    "einsum": lambda: jsparse.explain("ij,jk->ik", A, X),
    "steps": lambda: jsparse.explain("ij,jk,kl->il", A, A.T @ A, A.T),
    "sum": lambda: jsparse.explain("C[i,j] = A[i,j] + B[i,j]", A=A, B=A),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement(name):
    found = STATEMENTS[name]()
    page = Page(found._repr_html_())
    nests = [(text, is_open) for title, text, is_open in page.folded if title == "loop nest"]
    assert nests == [(str(kernel.nest), True) for kernel in found.kernels]
    for kernel in found.kernels:
        assert kernel.title in page.text
        assert str(kernel.schedule) in page.text
        assert f"of estimated cost {kernel.cost}" in page.text


def test_an_einsum_without_sparse_operands():
    assert "it is jnp.einsum" in Page(jsparse.explain("ij,jk->ik", X, X.T)._repr_html_()).text


def test_one_kernel():
    (kernel,) = jsparse.explain("ij,jk->ik", A, X).kernels
    sections = folded(Page(kernel._repr_html_()))
    assert sections["problem"] == str(kernel.plan.problem)
    assert sections["kernel"] == str(kernel.kernel)
    assert str(kernel.traffic) in sections["traffic"]


def test_a_program():
    def function(A, X):
        return jax.lax.scan(lambda c, _: (c + (A @ X).sum(), None), 0.0, None, length=7)[0] + A.sum(0).sum()

    found = jsparse.explain(function)(A, X)
    page = Page(found._repr_html_())
    assert page.tags.count("tr") == 1 + len(found.kernels)
    assert [text for title, text, _ in page.folded if title == "loop nest"] == [str(k.nest) for k in found.kernels]
    for part in (
        "in scan of length 7",
        "A[i, j] csr, B[j, k] dense → C[i, k] dense",
        "function has 2 sparse operations",
    ):
        assert part in page.text


def test_a_program_without_kernels():
    page = Page(jsparse.explain(lambda x: x + 1)(X)._repr_html_())
    assert "<lambda> has no sparse operation" in page.text
    assert "table" not in page.tags


def test_names_are_escaped():
    evil = "<script>alert('&amp;')</script>"

    def inner(X):
        return A @ X

    inner.__name__ = evil
    page = Page(jsparse.explain(jax.jit(lambda X: jax.jit(inner)(X)))(X)._repr_html_())
    assert "script" not in page.tags
    assert f"in jit '{evil}'" in page.text
    inner.__name__ = "<b>&lt;"
    page = Page(jsparse.explain(inner)(X)._repr_html_())
    assert page.text.startswith("<b>&lt; has 1 sparse operation")
    assert page.tags.count("b") == 3  # the headings of the program and of the kernel, and its number

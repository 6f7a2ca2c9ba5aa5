"""The expressions of numpy's and opt_einsum's own tests, with operands sparse in several combinations."""

import numpy as np
import pytest
from einsum.structure import check_structure, dense_array, integers, random_format, stored_in, structural_nonzeros
from programs.amount import sample

import jsparse
from jsparse import SparseTensor

NUMPY = """
    i,i i,i-> i,i->i i,j i,->i i,-> ,i-> ,i->i i-> i->i ii->i iii->i ij-> ij->i ij->j ij,j ji,j ij,i-> ji,i->
    i,ij-> ij,ij->j ij,jk ij,jk->ik ik,kj->ij ij,jk,kl i,i,i->i i,i,i-> i,i,i,i-> im,im,im->m mi,mi,mi->m
    z,mz,zm-> ijk,j->ijk jii->ij ijk->jik ijij-> ijkl,k ijkl,k->ijl ijk,jil->kl x,yx,zx->xzy ijp,ipq,ikq->ijk
    obk,ijk->ioj ijk,kl,jl ijk,kl,jl,i->i ijklm,ijn-> ijklm,ijn,ijn-> aabb->ab aabcb,abc a,b,c->abc a,b,ab->ab
    a,ab,abc->abc a,a,a->a ab,cd,de->abcde ab,ab,c->c eb,cb,fb->cef dd,fb,be,cdb->cef bca,cdb,dbf,afc->
    dcc,fce,ea,dbf->ab fdf,cdd,ccd,afe->ae abcd,ad ed,fcd,ff,bcf->be baa,dcf,af,cde->be bd,db,eac->ace
    fff,fae,bef,def->abd efc,dbc,acf,fd->abe ba,ac,da->bcd cab,cdd->ab cacc,bcb-> adb,bc,fa,cfc->d bb,ff,be->e
    bbcdc->d bbd,bda,fc,db->acf bcb,bb,fc,fff-> bcf,bbb,fbf,fc-> fbb,dfd,fc,fc-> ecb,fef,bad,ed->ac
    aef,fbc,dca->bde aab,fa,df,ecc->bde afd,ba,cc,dc->bf iij,jji->ij iji,jij->ij iij,jji-> ijji,jiij->ij
"""
OPT_EINSUM = """
    ab,ab ab,ba ab,bc ba,bc ab,cb ba,cb da,ab abc,abc abc,bac abc,cba abcd,ab abcd,cd abcd,cdef abcd,efdc
    ijk,ikj ,,-> a,->a ,a,->a ab,-> ,ab,->ab ab,->ab a,b-> c,d-> i,j->ij ab,bc,cd ab,bc,cd->a ab,bc,cd->b
    ab,bc,cd->c ab,bc->ca ab,ab,c-> aab,bc->ac ab,bcc->ac aab,bcc->ac baa,bcc->ac aab,ccb->ac a,b,abc->c
    bc,ab->bca bca,bd->acd ab,bc,bd->acd nlp,nlq,pl->n abc,bcd,df->fa abc,bcd,dea abc,cfd,dbe,efa ab,cd,ef->acdf
    ab,cd,ad,cb a,bcd,efg-> abc,def->fedcba abcd,cdef->feba ab,ab,cd,cd->ac ab,ab,cd,cd->cd ab,bcd,cd->abcd
    ab,bcd,cd->abd abjk,kl,jl abjk,kl,jl,ab->ab ajk,kbl,jl,ab->ab dba,ead,cad->bce a,ac,ab,ad,cd,bd,bc->
    ijab,acd,bce,df,ef->ji ea,fb,gc,hd,abcd->efgh abcd,ea,fb,gc,hd->efgh acdf,jbje,gihb,hfac
    bdhe,acad,hiab,agac,hibd abhe,hidj,jgba,hiab,gab cd,bdhe,aidb,hgca,gc,hgibcd,hgac
    bde,cdh,agdb,hica,ibd,hgicd,hiac chd,bde,agbc,hiad,hgc,hgi,hiad acdf,jbje,gihb,hfac,gfac,gifabc,hfac
"""
EXPRESSIONS = tuple(dict.fromkeys(f"{NUMPY} {OPT_EINSUM}".split()))
MIXED = sample([text for text in EXPRESSIONS if len(text) % 2], 0, 3)  # with dense operands as well
ELLIPSES = [
    ("...,...", [(3,), (2, 3)]),
    ("...i,...i", [(2, 3), (3,)]),
    ("...i,...i->...", [(2, 3), (4, 2, 3)]),
    ("i...->...", [(3, 2, 2)]),
    ("...i->...", [(2, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("ii...->...i", [(3, 3, 2)]),
    ("i...i->i...", [(3, 2, 3)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 2)]),
    ("...ij,...jk->...ik", [(2, 1, 2, 3), (3, 3, 2)]),
    ("...k,kj", [(2, 3), (3, 2)]),
    ("ij...,j...->ij...", [(2, 3, 2), (3, 2)]),
    ("ij...,...j->ij...", [(2, 3, 4), (3,)]),
    ("ik...,k...->i...", [(2, 3, 2), (3, 2)]),
    ("ik,k...->i...", [(2, 3), (3, 4)]),
    ("...ft,mf->...mt", [(2, 3, 2), (4, 3)]),
    ("...lmn,...lmno->...o", [(2, 2, 3), (2, 2, 3, 2)]),
    ("...a,...b", [(3, 2), (3, 4)]),
    ("...,...->...", [(1, 3), (2, 1)]),
    ("...,->...", [(2, 3), ()]),
]


def check(text, shapes, rng, kinds):
    arrays = [integers(rng, shape, 0.6) for shape in shapes]
    if not any(kinds):
        kinds = [True, *kinds[1:]]
    operands = [stored_in(x, random_format(rng, x.ndim), 1) if k else x for x, k in zip(arrays, kinds, strict=True)]
    expected = np.einsum(text, *map(dense_array, operands))
    for out_format in (None, "dense"):
        found = jsparse.einsum(text, *operands, out_format=out_format)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(dense_array(found), expected, f"{text} {operands} {out_format}")
        if isinstance(found, SparseTensor):
            assert out_format is None
            check_structure(found, structural_nonzeros(lambda *o: np.einsum(text, *o), operands))


def shapes_of(text):
    """Shapes of the operands: sizes alternate between 2 and 3, and are 2 in expressions of many indices."""
    names = sorted(set(text) - set(",->"))
    sizes = {v: 2 if len(names) > 5 else 2 + n % 2 for n, v in enumerate(names)}
    return [tuple(sizes[v] for v in term) for term in text.split("->")[0].split(",")]


@pytest.mark.sampled
@pytest.mark.parametrize("text", sample(EXPRESSIONS, 1, 3))
def test_expressions(text):
    rng, shapes = np.random.default_rng(len(text)), shapes_of(text)
    check(text, shapes, rng, [True] * len(shapes))
    if text in MIXED:
        check(text, shapes, rng, rng.random(len(shapes)) < 0.5)


def test_ellipses():
    rng = np.random.default_rng(0)
    for text, shapes in ELLIPSES:
        check(text, shapes, rng, [True] * len(shapes))
        if len(shapes) > 1:
            check(text, shapes, rng, [True, False])
            check(text, shapes, rng, [False, True])


@pytest.mark.semantics
def test_sublists():
    """Lists of integers give the result of letters in the same order."""
    rng = np.random.default_rng(0)
    A, B = (stored_in(integers(rng, (3, 3), 0.6), format) for format in ("csr", "coo"))
    x = integers(rng, (3,))
    a, b = dense_array(A), dense_array(B)
    cases = [
        ((A, [0, 1], x, [1], [0]), a @ x),
        ((A, [5, 2], B, [2, 7], [5, 7]), a @ b),
        ((A, [0, 1], B, [1, 2]), a @ b),
        ((A, [1, 0], B, [2, 1]), (b @ a).T),
        ((x, [1], A, [0, 1], [0]), a @ x),
        ((A, [0, 0], [0]), np.diag(a)),
        ((A, [0, 0]), np.trace(a)),
        ((A, [Ellipsis, 1], x, [1], [Ellipsis]), a @ x),
        ((A, [Ellipsis], B, [Ellipsis], [Ellipsis]), a * b),
        ((A, (0, 1), B, range(2), [1, 0]), (a * b).T),
        ((A, [40, 30], [30, 40]), a.T),
    ]
    for arguments, expected in cases:
        found = jsparse.einsum(*arguments)
        np.testing.assert_array_equal(dense_array(found), expected)
        np.testing.assert_array_equal(jsparse.einsum(*arguments, out_format="dense"), expected)
        if expected.ndim:
            assert isinstance(jsparse.einsum(*arguments, out_format="coo"), SparseTensor)

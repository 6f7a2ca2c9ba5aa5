"""Composed operands become plain ones: each index variable is replaced by its digits, each part by its factors.

    A[b·I + a, c·J + e] = Σ_s K(I, J, s) · V[s, a, e]

An operand in bsr(4, 4) is a tensor on its outer pattern, whose blocks are dense levels, so

    A[i, j] * X[j, n]        becomes        A[i.0, j.0, i.1, j.1] * X[j.0, j.1, n]

The digit i.0 is i // 4, and i.1 is i % 4. If slots are not the entries of the outer pattern in their order, the outer
pattern K is an index relation, and the values V are a dense array. A product with a tensor of several parts is a sum.

An index variable has the same digits in all operands. If one operand has larger blocks than another, or is plain, its
levels are split into the smaller digits, without moving a value (`formats.split`). If that is impossible, composed
operands are converted to plain ones.

    digits      the digits of each index variable (`Digits`)
    operands    the factors that replace an access (`Factors`)
    results     where the result is stored, and how it is made of the value on digits
    statements  the terms on plain operands, and the instructions around them
"""

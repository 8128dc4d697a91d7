"""Kernels for block tables on a GPU: score, select, gather, scatter, entropy.

Each is written twice with one signature: in plain torch (`reference`), which says what is meant, and in
Triton (`score`, `select`, `blockcopy`, `attention`), which is fast. Nothing else of the agent imports this
package unless it holds a large table on a GPU (docs/adr/0013). Imports torch and triton, the extra `gpu`.
"""

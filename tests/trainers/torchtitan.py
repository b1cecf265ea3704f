"""A flavor of Llama and one of gpt-oss; RoPE.Config( in a text is no call."""
from torchtitan.models.common import ComplexRoPE, CosSinRoPE


def _debugmodel():
    dim = 2048
    n_heads = 16
    rope = ComplexRoPE.Config(
        dim=dim // n_heads,  # 128
        max_context_length=131072,
        theta=500_000,
        scaling="llama",
        scaling_factor=8.0,
    )
    return rope


def _oss():
    return CosSinRoPE.Config(
        dim=64, max_context_length=131072, theta=150000.0, scaling="yarn", rope_factor=32,
        beta_fast=32.0, beta_slow=1.0, original_seq_len=4096, truncate=False,
    )

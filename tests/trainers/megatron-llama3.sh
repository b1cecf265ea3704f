#!/bin/bash
# A launch script: words of the shell, a variable, a list, comments.
export CUDA_DEVICE_MAX_CONNECTIONS=1
LAYERS=8
GPT_ARGS=(
    --num-layers $LAYERS
    --hidden-size 4096 --num-attention-heads 32
    --position-embedding-type rope   # not learned_absolute, the default
    --rotary-base 500000 --rotary-percent=0.5
    --use-rope-scaling \
    --rope-scaling-factor 32
    --max-position-embeddings 131072
    --no-rope-freq "([0]*3+[1]*1)*2"
)
torchrun --nproc_per_node 8 pretrain_gpt.py ${GPT_ARGS[@]} --seq-length 131072

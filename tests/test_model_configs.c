/* test_model_configs.c: what positions real models use.  Every file of tests/configs is expected here, and says what is
 * expected of it; configs.md there names the sources. */
#include "gyre/gyre_model.h"
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- layers that turn, or have no positions ------------------------------------------------------------------------------
 */
/* group: NULL where all layers agree.  base: before any scaling.  length: that the scaling speaks of, else the longest the
 * model is said to read.  attention: what multiplies cos and sin.  window: -1 = whatever. */
typedef struct rotation {
    const char *file, *group;
    gyre_kind kind;
    gyre_layout layout;
    int64_t head_dim, dim;
    double base;
    gyre_scaling scaling;
    double factor;
    int64_t length;
    double attention;
    int64_t window;
} rotation;
/* clang-format off */
static const rotation rotations[] = {
    {"llama-2-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 4096, 1, 0},
    {"llama-2-70b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 4096, 1, 0},
    {"llama-3-8b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e5, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"llama-3.1-8b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e5, GYRE_LLAMA3, 8, 8192, 1, 0},
    {"llama-3.2-1b", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 5e5, GYRE_LLAMA3, 32, 8192, 1, 0},
    {"llama-3.2-3b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e5, GYRE_LLAMA3, 32, 8192, 1, 0},
    {"llama-3.3-70b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e5, GYRE_LLAMA3, 8, 8192, 1, 0},
    {"llama-4-scout", "nope", GYRE_NOPE, GYRE_HALF, 128, 0, 0, GYRE_UNSCALED, 0, 0, 0, 0},
    {"llama-4-scout", "rope", GYRE_ROPE, GYRE_INTERLEAVED, 128, 128, 5e5, GYRE_LLAMA3, 16, 8192, 1, -1},
    {"llama-4-maverick", "nope", GYRE_NOPE, GYRE_HALF, 128, 0, 0, GYRE_UNSCALED, 0, 0, 0, 0},
    {"llama-4-maverick", "rope", GYRE_ROPE, GYRE_INTERLEAVED, 128, 128, 5e5, GYRE_UNSCALED, 1, 1048576, 1, -1},
    {"codellama-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 16384, 1, 0},
    {"llama-2-7b-32k", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_LINEAR, 8, 32768, 1, 0},
    {"longchat-7b-16k", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_LINEAR, 8, 16384, 1, 0},
    {"yarn-llama-2-7b-128k", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_YARN, 32, 4096, 1.3465735903, 0},
    {"yarn-mistral-7b-128k", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_YARN, 16, 8192, 1.2772588722, 4096},
    {"tinyllama-1.1b", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"mistral-7b-v0.1", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 32768, 1, 4096},
    {"mistral-7b-v0.3", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"mixtral-8x7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"mixtral-8x22b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 65536, 1, 0},
    {"ministral-3-3b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_YARN, 16, 16384, 1, 0},
    {"mistral-small-4", NULL, GYRE_ROPE, GYRE_INTERLEAVED_TO_HALF, 128, 64, 1e4, GYRE_YARN, 128, 8192, 1, 0},
    {"qwen-1.8b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"qwen2-0.5b", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"qwen2-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"qwen2.5-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"qwen2.5-7b-yarn", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_YARN, 4, 32768, 1.1386294361, 0},
    {"qwen2.5-math-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 4096, 1, 0},
    {"qwen2.5-7b-1m", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e7, GYRE_UNSCALED, 1, 1010000, 1, 0},
    {"qwq-32b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 131072, 1, 0},
    {"qwen3-0.6b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 40960, 1, 0},
    {"qwen3-4b-2507", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e6, GYRE_UNSCALED, 1, 262144, 1, 0},
    {"qwen3-30b-a3b-2507", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e7, GYRE_UNSCALED, 1, 262144, 1, 0},
    {"qwen3-next-80b", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 64, 1e7, GYRE_UNSCALED, 1, 262144, 1, 0},
    {"qwen3.5-9b", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 64, 1e7, GYRE_UNSCALED, 1, 262144, 1, 0},
    {"qwen3.5-9b-yarn", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 64, 1e7, GYRE_YARN, 4, 262144, 1.1386294361, 0},
    {"qwen2-vl-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"qwen2.5-vl-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 128000, 1, 0},
    {"qwen3-vl-30b-a3b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e6, GYRE_UNSCALED, 1, 262144, 1, 0},
    {"qwen3-vl-30b-a3b-yarn", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e6, GYRE_YARN, 3, 256000, 1.1098612289, 0},
    {"phi-1.5", NULL, GYRE_ROPE, GYRE_HALF, 64, 32, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"phi-2", NULL, GYRE_ROPE, GYRE_HALF, 80, 32, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"phi-3-mini-4k", NULL, GYRE_ROPE, GYRE_HALF, 96, 96, 1e4, GYRE_UNSCALED, 1, 4096, 1, 2047},
    {"phi-3-mini-128k", NULL, GYRE_ROPE, GYRE_HALF, 96, 96, 1e4, GYRE_LONGROPE, 32, 4096, 1.1902380714, 262144},
    {"phi-3.5-mini", NULL, GYRE_ROPE, GYRE_HALF, 96, 96, 1e4, GYRE_LONGROPE, 32, 4096, 1.1902380714, 262144},
    {"phi-3.5-vision", NULL, GYRE_ROPE, GYRE_HALF, 96, 96, 1e4, GYRE_LONGROPE, 32, 4096, 1.1902380714, 262144},
    {"phi-4-mini", NULL, GYRE_ROPE, GYRE_HALF, 128, 96, 1e4, GYRE_LONGROPE, 32, 4096, 1.1902380714, 262144},
    {"phi-4", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 25e4, GYRE_UNSCALED, 1, 16384, 1, 0},
    {"gpt-neox-20b", NULL, GYRE_ROPE, GYRE_HALF, 96, 24, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"pythia-1b", NULL, GYRE_ROPE, GYRE_HALF, 256, 64, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"pythia-6.9b", NULL, GYRE_ROPE, GYRE_HALF, 128, 32, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"redpajama-incite-3b", NULL, GYRE_ROPE, GYRE_HALF, 80, 80, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"gpt-j-6b", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 256, 64, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"codegen-6b", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 256, 64, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"chatglm3-6b", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 64, 1e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"glm-4-9b-chat", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 64, 5e6, GYRE_UNSCALED, 1, 131072, 1, 0},
    {"glm-4-9b-chat-1m", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 64, 1e8, GYRE_UNSCALED, 1, 1048576, 1, 0},
    {"glm-4.5", NULL, GYRE_ROPE, GYRE_HALF, 128, 64, 1e6, GYRE_UNSCALED, 1, 131072, 1, 0},
    {"deepseek-v2-lite", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 192, 64, 1e4, GYRE_YARN, 40, 4096, 1, 0},
    {"deepseek-v2", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 192, 64, 1e4, GYRE_YARN, 40, 4096, 1, 0},
    {"deepseek-v3", NULL, GYRE_ROPE, GYRE_INTERLEAVED_TO_HALF, 192, 64, 1e4, GYRE_YARN, 40, 4096, 1, 0},
    {"deepseek-v4-flash", "main", GYRE_ROPE, GYRE_INTERLEAVED, 512, 64, 1e4, GYRE_UNSCALED, 1, 1048576, 1, -1},
    {"deepseek-v4-flash", "compress", GYRE_ROPE, GYRE_INTERLEAVED, 512, 64, 16e4, GYRE_YARN, 16, 65536, 1, -1},
    {"kimi-k2", NULL, GYRE_ROPE, GYRE_INTERLEAVED_TO_HALF, 192, 64, 5e4, GYRE_YARN, 32, 4096, 1, 0},
    {"gemma-2b", NULL, GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"gemma-7b", NULL, GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"gemma-2-9b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 8192, 1, 4096},
    {"gemma-2-9b", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"gemma-2-27b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 8192, 1, 4096},
    {"gemma-2-27b", "full_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"gemma-3-1b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 32768, 1, 512},
    {"gemma-3-1b", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"gemma-3-4b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 131072, 1, 1024},
    {"gemma-3-4b", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e6, GYRE_LINEAR, 8, 131072, 1, 0},
    {"gemma-3-12b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 131072, 1, 1024},
    {"gemma-3-12b", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e6, GYRE_LINEAR, 8, 131072, 1, 0},
    {"gemma-3-27b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 131072, 1, 1024},
    {"gemma-3-27b", "full_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_LINEAR, 8, 131072, 1, 0},
    {"gemma-3n-e4b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 32768, 1, 512},
    {"gemma-3n-e4b", "full_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"gemma-4", "sliding_attention", GYRE_ROPE, GYRE_HALF, 256, 256, 1e4, GYRE_UNSCALED, 1, 131072, 1, 512},
    {"gemma-4", "full_attention", GYRE_ROPE, GYRE_HALF, 512, 512, 1e6, GYRE_PROPORTIONAL, 1, 131072, 1, 0},
    {"command-r", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 128, 8e6, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"aya-23-8b", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 128, 1e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"command-r7b", "sliding_attention", GYRE_ROPE, GYRE_INTERLEAVED, 128, 128, 5e4, GYRE_UNSCALED, 1, 8192, 1, 4096},
    {"command-r7b", "full_attention", GYRE_NOPE, GYRE_HALF, 128, 0, 0, GYRE_UNSCALED, 0, 0, 0, 0},
    {"stablelm-3b-4e1t", NULL, GYRE_ROPE, GYRE_HALF, 80, 20, 1e4, GYRE_UNSCALED, 1, 4096, 1, 0},
    {"stablelm-2-1.6b", NULL, GYRE_ROPE, GYRE_HALF, 64, 16, 1e4, GYRE_UNSCALED, 1, 4096, 1, 0},
    {"falcon-7b", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"falcon-40b", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"falcon-180b", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e4, GYRE_UNSCALED, 1, 2048, 1, 0},
    {"falcon3-7b", NULL, GYRE_ROPE, GYRE_HALF, 256, 256, 1000042, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"minicpm-2b-128k", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e6, GYRE_DYNAMIC_NTK, 4, 65536, 1, 0},
    {"minicpm4-8b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_LONGROPE, 1, 32768, 1, 0},
    {"minicpm3-4b", NULL, GYRE_ROPE, GYRE_HALF, 96, 32, 1e4, GYRE_LONGROPE, 1, 32768, 1, 0},
    {"internlm2-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"internlm2.5-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_DYNAMIC_NTK, 2, 32768, 1, 0},
    {"gpt-oss-20b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 64, 64, 15e4, GYRE_YARN, 32, 4096, 1.3465735903, 128},
    {"gpt-oss-20b", "full_attention", GYRE_ROPE, GYRE_HALF, 64, 64, 15e4, GYRE_YARN, 32, 4096, 1.3465735903, 0},
    {"smollm2-135m", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e5, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"smollm2-1.7b", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 13e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"smollm3-3b", "rope", GYRE_ROPE, GYRE_HALF, 128, 128, 5e6, GYRE_UNSCALED, 1, 65536, 1, 0},
    {"smollm3-3b", "nope", GYRE_NOPE, GYRE_HALF, 128, 0, 0, GYRE_UNSCALED, 0, 0, 0, 0},
    {"smollm3-3b-128k", "rope", GYRE_ROPE, GYRE_HALF, 128, 128, 5e6, GYRE_YARN, 2, 65536, 1.0693147181, 0},
    {"smollm3-3b-128k", "nope", GYRE_NOPE, GYRE_HALF, 128, 0, 0, GYRE_UNSCALED, 0, 0, 0, 0},
    {"olmo-2-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 5e5, GYRE_UNSCALED, 1, 4096, 1, 0},
    {"olmo-3-32b", "sliding_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 5e5, GYRE_UNSCALED, 1, 65536, 1, 4096},
    {"olmo-3-32b", "full_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 5e5, GYRE_YARN, 8, 8192, 1.2079441542, 0},
    {"laguna-xs.2", "sliding_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 131072, 1, 512},
    {"laguna-xs.2", "full_attention", GYRE_ROPE, GYRE_HALF, 128, 64, 5e5, GYRE_YARN, 64, 4096, 1, 0},
    {"mimo-v2-flash", "sliding_attention", GYRE_ROPE, GYRE_HALF, 192, 64, 1e4, GYRE_UNSCALED, 1, 131072, 1, 128},
    {"mimo-v2-flash", "full_attention", GYRE_ROPE, GYRE_HALF, 192, 64, 5e6, GYRE_UNSCALED, 1, 131072, 1, 0},
    {"cwm", "sliding_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_LLAMA3, 16, 8192, 1, 8192},
    {"cwm", "full_attention", GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_LLAMA3, 16, 8192, 1, 0},
    {"starcoder2-15b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 16384, 1, 4096},
    {"starcoder2-7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e5, GYRE_UNSCALED, 1, 16384, 1, 4096},
    {"orion-14b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_UNSCALED, 1, 4096, 1, 0},
    {"nomic-bert", NULL, GYRE_ROPE, GYRE_HALF, 64, 64, 1e3, GYRE_DYNAMIC_NTK, 2, 2048, 1, 0},
    {"modernbert-base", "sliding_attention", GYRE_ROPE, GYRE_HALF, 64, 64, 1e4, GYRE_UNSCALED, 1, 8192, 1, -1},
    {"modernbert-base", "full_attention", GYRE_ROPE, GYRE_HALF, 64, 64, 16e4, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"ernie-4.5-vl-28b", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 128, 5e5, GYRE_UNSCALED, 1, 131072, 1, 0},
    {"hunyuan-ocr", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e4, GYRE_NTK, 1000, 32768, 1, 0},
    {"telechat3-36b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_YARN, 4, 32768, 1.0970406053, 0},
    {"qwen1.5-moe-a2.7b", NULL, GYRE_ROPE, GYRE_HALF, 128, 128, 1e6, GYRE_UNSCALED, 1, 8192, 1, 0},
    {"glm-4-9b-chat-hf", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 64, 1e4, GYRE_UNSCALED, 1, 131072, 1, 0},
    {"glm-4-32b-0414", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 128, 64, 1e4, GYRE_UNSCALED, 1, 32768, 1, 0},
    {"roformer-base", NULL, GYRE_ROPE, GYRE_INTERLEAVED, 64, 64, 1e4, GYRE_UNSCALED, 1, 1536, 1, 0},
};
/* clang-format on */
enum { ROTATIONS = sizeof rotations / sizeof *rotations };

/* -- everything else ------------------------------------------------------------------------------------------------------
 */
typedef struct other {
    const char *file, *group; /* NULL = the first */
    gyre_kind kind;
    int64_t heads, positions, offset; /* of the input's table; 0 = whatever */
    int64_t distance, buckets;        /* of the score */
    int bidirectional;
    unsigned terms;
} other;
enum { BOTH = GYRE_ON_QUERY | GYRE_ON_KEY };
static const other others[] = {
    {"gpt2", NULL, GYRE_LEARNED, 0, 1024, 0, 0, 0, 0, 0},
    {"opt-1.3b", NULL, GYRE_LEARNED, 0, 2050, 2, 0, 0, 0, 0},
    {"roberta-base", NULL, GYRE_LEARNED, 0, 514, 2, 0, 0, 0, 0},
    {"bart-large", NULL, GYRE_LEARNED, 0, 1026, 2, 0, 0, 0, 0},
    {"whisper-tiny", "decoder", GYRE_LEARNED, 0, 448, 0, 0, 0, 0, 0},
    {"whisper-tiny", "encoder", GYRE_SINUSOIDAL, 0, 0, 0, 0, 0, 0, 0},
    {"opus-mt-en-de", NULL, GYRE_SINUSOIDAL, 0, 0, 0, 0, 0, 0, 0},
    {"m2m100-418m", NULL, GYRE_SINUSOIDAL, 0, 0, 2, 0, 0, 0, 0},
    {"bert-base", NULL, GYRE_LEARNED, 0, 512, 0, 0, 0, 0, 0},
    {"bert-relative-key", NULL, GYRE_BERT, 0, 0, 0, 512, 0, 0, GYRE_ON_QUERY},
    {"bert-relative-key-query", NULL, GYRE_BERT, 0, 0, 0, 512, 0, 0, BOTH},
    {"nezha-base", NULL, GYRE_NEZHA, 0, 0, 0, 64, 0, 0, 0},
    {"deberta-base", NULL, GYRE_DEBERTA, 0, 0, 0, 512, 0, 0, BOTH},
    {"deberta-v3-base", NULL, GYRE_DEBERTA, 0, 0, 0, 512, 256, 0, BOTH},
    {"t5-base", "decoder", GYRE_T5, 12, 0, 0, 128, 32, 0, 0},
    {"t5-base", "encoder", GYRE_T5, 12, 0, 0, 128, 32, 1, 0},
    {"xlnet-base", NULL, GYRE_TRANSFORMER_XL, 12, 0, 0, 0, 0, 1, 0},
    {"transfo-xl-wt103", NULL, GYRE_TRANSFORMER_XL, 16, 0, 0, 1000, 0, 0, 0},
    {"falcon-rw-1b", NULL, GYRE_ALIBI, 32, 0, 0, 0, 0, 0, 0},
    {"bloom-176b", NULL, GYRE_ALIBI, 112, 0, 0, 0, 0, 0, 0},
    {"bloom-7b1", NULL, GYRE_ALIBI, 32, 0, 0, 0, 0, 0, 0},
    {"mpt-7b", NULL, GYRE_ALIBI, 32, 0, 0, 0, 0, 0, 0},
    {"mpt-30b", NULL, GYRE_ALIBI, 64, 0, 0, 0, 0, 0, 0},
};
enum { OTHERS = sizeof others / sizeof *others };

/* -- reading a file -------------------------------------------------------------------------------------------------------
 */
static gyre_reading *open_config(const char *file) {
    char path[1024];
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    /* No transformers runs TeleChat3; vLLM does. */
    const gyre_profile profile = strcmp(file, "telechat3-36b") == 0 ? GYRE_AS_VLLM : GYRE_AS_USUAL;
    assert_true((size_t)snprintf(path, sizeof path, "%s/configs/%s.json", GYRE_TEST_DATA, file) < sizeof path);
    if (gyre_reading_open(&reading, path, profile, 0, &err) != GYRE_OK) fail_msg("%s: %s", file, err.text);
    return reading;
}

static const gyre_layer_reading *find_group(const gyre_reading *reading, const char *name) {
    for (int64_t i = 0; i < reading->groups_count; i++)
        if (!name || strcmp(reading->groups[i].name, name) == 0) return &reading->groups[i];
    return NULL;
}

/* The group, which must be there.  In: the file's and the group's name, for messages. */
static const gyre_layer_reading *need_group(const gyre_reading *reading, const char *file, const char *name) {
    const gyre_layer_reading *group = find_group(reading, name);
    if (!group) fail_msg("%s: no layers \"%s\", the first are \"%s\"", file, name, reading->groups[0].name);
    return group;
}

static const char *label(char out[static 96], const char *file, const char *group, const char *what) {
    snprintf(out, 96, "%s, %s: %s", file, group ? group : "all layers", what);
    return out;
}

static void same_number(const rotation *row, const char *what, double got, double want, double bound) {
    char name[96];
    test_close((long double)got, (long double)want, (long double)(bound * fabs(want)),
               label(name, row->file, row->group, what));
}
static void same_whole(const char *file, const char *group, const char *what, int64_t got, int64_t want) {
    char name[96];
    if (got != want) fail_msg("%s is %lld, not %lld", label(name, file, group, what), (long long)got, (long long)want);
}

/* -- rotations ------------------------------------------------------------------------------------------------------------
 */
/* Where the frequencies follow from the row in one line: theta_i = base^(-2 i / dim), divided by a linear factor. */
static void check_frequencies(const rotation *row, const gyre_encoding *encoding) {
    double inv_freq[512], attention;
    assert_true(row->dim / 2 <= 512);
    assert_ok(gyre_encoding_frequencies(encoding, 0, inv_freq, &attention));
    same_number(row, "attention factor", attention, row->attention, 1e-9);               /* known to ten digits */
    const int plain = row->scaling == GYRE_UNSCALED || row->scaling == GYRE_DYNAMIC_NTK; /* at its trained length */
    if (!plain && row->scaling != GYRE_LINEAR) return;
    const long double divisor = row->scaling == GYRE_LINEAR ? (long double)row->factor : 1.0L;
    for (int64_t i = 0; i < row->dim / 2; i++) {
        const long double theta = powl((long double)row->base, -2.0L * (long double)i / (long double)row->dim) / divisor;
        same_number(row, "frequency", inv_freq[i], (double)theta, 1e-12);
    }
}

static void check_rotation(const rotation *row, const gyre_layer_reading *group) {
    const gyre_config *given = &group->config;
    same_whole(row->file, row->group, "kind", given->kind, row->kind);
    if (row->window >= 0) same_whole(row->file, row->group, "window", group->window, row->window);
    if (row->kind != GYRE_ROPE) return;
    gyre_encoding *encoding = test_encoding(given);
    const gyre_config *config = gyre_encoding_config(encoding);
    same_whole(row->file, row->group, "layout", config->rope.layout, row->layout);
    same_whole(row->file, row->group, "head_dim", config->head_dim, row->head_dim);
    same_whole(row->file, row->group, "rotated channels", config->rope.dim, row->dim);
    same_whole(row->file, row->group, "scaling", config->rope.scaling, row->scaling);
    same_whole(row->file, row->group, "trained length", config->trained_length, row->length);
    same_number(row, "base", config->rope.base, row->base, 1e-15);
    same_number(row, "factor", config->rope.factor, row->factor, 1e-15);
    check_frequencies(row, encoding);
    gyre_encoding_free(encoding);
}

/* Towers and layers without attention are not the decoder's. */
static int is_beside(const char *name) {
    return strcmp(name, "vision") == 0 || strcmp(name, "audio") == 0 || strcmp(name, "linear_attention") == 0;
}

static void check_file(const rotation *rows, size_t count) {
    gyre_reading *reading = open_config(rows[0].file);
    int64_t groups = 0;
    for (int64_t i = 0; i < reading->groups_count; i++)
        groups += !is_beside(reading->groups[i].name);
    for (size_t i = 0; i < count; i++)
        check_rotation(&rows[i], need_group(reading, rows[i].file, rows[i].group));
    same_whole(rows[0].file, NULL, "number of groups", groups, (int64_t)count);
    gyre_reading_free(reading);
}

static void test_rotations(void **state) {
    (void)state;
    for (size_t first = 0, next; first < ROTATIONS; first = next) {
        for (next = first + 1; next < ROTATIONS && strcmp(rotations[next].file, rotations[first].file) == 0;)
            next++;
        check_file(&rotations[first], next - first);
    }
}

/* -- what only some have --------------------------------------------------------------------------------------------------
 */
/* Scores times what, all told: a size of the file, or 1 / sqrt(head_dim) times what YaRN adds under latent attention. */
static void test_scales(void **state) {
    (void)state;
    static const struct {
        const char *file, *group;
        double scale, softmax;
    } rows[] = {
        {"llama-2-7b", NULL, 0.08838834764831845, 1},
        {"gemma-2-27b", "full_attention", 1.0 / 12.0, 1},
        {"gemma-2-27b", "sliding_attention", 1.0 / 12.0, 1},
        {"gemma-3-27b", "full_attention", 0.07715167498104596, 1}, /* 168 */
        {"gemma-3-4b", "sliding_attention", 0.0625, 1},
        {"gemma-3n-e4b", "full_attention", 1, 1},
        {"gemma-4", "full_attention", 1, 1},
        {"deepseek-v2-lite", NULL, 0.1147213868, 1.5896261651}, /* 192 */
        {"deepseek-v2", NULL, 0.1352337789, 1.8738542071},
        {"deepseek-v3", NULL, 0.1352337789, 1.8738542071},
        {"kimi-k2", NULL, 0.1308608000, 1.8132604340},
        {"mistral-small-4", NULL, 0.1949694947, 2.2058280296},
        {"minicpm3-4b", NULL, 0.1020620726, 1}, /* 96 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[96];
        gyre_reading *reading = open_config(rows[i].file);
        const gyre_layer_reading *group = need_group(reading, rows[i].file, rows[i].group);
        const double scale = group->scale != 0.0 ? group->scale : 1.0 / sqrt((double)group->config.head_dim);
        test_close((long double)scale, (long double)rows[i].scale, 1e-9L, label(name, rows[i].file, rows[i].group, "scale"));
        test_close((long double)group->softmax_multiplier, (long double)rows[i].softmax, 1e-9L,
                   label(name, rows[i].file, rows[i].group, "softmax multiplier"));
        gyre_reading_free(reading);
    }
}

static void test_temperatures(void **state) {
    (void)state;
    static const struct {
        const char *file, *group;
        gyre_temperature temperature;
        int64_t length;
    } rows[] = {
        {"llama-4-scout", "nope", GYRE_TEMPERATURE_LLAMA4, 8192},
        {"llama-4-scout", "rope", GYRE_TEMPERATURE_NONE, 0},
        {"llama-4-maverick", "nope", GYRE_TEMPERATURE_NONE, 0},
        {"ministral-3-3b", NULL, GYRE_TEMPERATURE_MINISTRAL, 16384},
        {"mistral-small-4", NULL, GYRE_TEMPERATURE_MINISTRAL, 8192},
        {"llama-3.1-8b", NULL, GYRE_TEMPERATURE_NONE, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *reading = open_config(rows[i].file);
        const gyre_layer_reading *group = need_group(reading, rows[i].file, rows[i].group);
        same_whole(rows[i].file, rows[i].group, "temperature", group->config.query.temperature, rows[i].temperature);
        if (rows[i].length > 0) {
            gyre_encoding *encoding = test_encoding(&group->config);
            const gyre_config *config = gyre_encoding_config(encoding);
            same_whole(rows[i].file, rows[i].group, "temperature length", config->query.length, rows[i].length);
            assert_true(config->query.slope == 0.1);
            gyre_encoding_free(encoding);
        }
        gyre_reading_free(reading);
    }
}

static void test_axes(void **state) {
    (void)state;
    static const struct {
        const char *file, *group;
        gyre_axes layout;
        int64_t section[4];
    } rows[] = {
        {"qwen2-vl-7b", NULL, GYRE_AXES_CHUNKED, {16, 24, 24, 0}},
        {"qwen2.5-vl-7b", NULL, GYRE_AXES_CHUNKED, {16, 24, 24, 0}},
        {"qwen3-vl-30b-a3b", NULL, GYRE_AXES_INTERLEAVED, {24, 20, 20, 0}},
        {"qwen3-vl-30b-a3b-yarn", NULL, GYRE_AXES_INTERLEAVED, {24, 20, 20, 0}},
        {"qwen3.5-9b", "full_attention", GYRE_AXES_INTERLEAVED, {11, 11, 10, 0}},
        {"qwen3.5-9b-yarn", "full_attention", GYRE_AXES_INTERLEAVED, {11, 11, 10, 0}},
        {"qwen2-vl-7b", "vision", GYRE_AXES_AXIAL, {20, 20, 0, 0}},
        {"qwen2.5-vl-7b", "vision", GYRE_AXES_AXIAL, {20, 20, 0, 0}},
        {"qwen3-vl-30b-a3b", "vision", GYRE_AXES_AXIAL, {18, 18, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *reading = open_config(rows[i].file);
        const struct gyre_rope_config *rope = &need_group(reading, rows[i].file, rows[i].group)->config.rope;
        same_whole(rows[i].file, rows[i].group, "axes", rope->axes, rows[i].section[2] ? 3 : 2);
        same_whole(rows[i].file, rows[i].group, "layout of axes", rope->axes_layout, rows[i].layout);
        for (int a = 0; a < 4; a++)
            same_whole(rows[i].file, rows[i].group, "section", rope->section[a], rows[i].section[a]);
        gyre_reading_free(reading);
    }
}

/* Where a head turns elsewhere than at its beginning: latent attention puts what turns behind what does not. */
static void test_first_channels(void **state) {
    (void)state;
    static const struct {
        const char *file, *group;
        int64_t first;
    } rows[] = {
        {"deepseek-v2-lite", NULL, 128},
        {"deepseek-v3", NULL, 128},
        {"minicpm3-4b", NULL, 64},
        {"mistral-small-4", NULL, 64},
        {"deepseek-v4-flash", "main", 448},
        {"gpt-neox-20b", NULL, 0},
        {"gpt-j-6b", NULL, 0},
        {"phi-4-mini", NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *reading = open_config(rows[i].file);
        const gyre_layer_reading *group = need_group(reading, rows[i].file, rows[i].group);
        same_whole(rows[i].file, rows[i].group, "first channel", group->config.rope.first, rows[i].first);
        gyre_reading_free(reading);
    }
}

/* Which layers are which: every fourth of Llama 4 and SmolLM3 has no positions, every sixth of Gemma 3 sees all. */
static void test_layers(void **state) {
    (void)state;
    static const struct {
        const char *file, *group;
        int64_t count, first, step;
    } rows[] = {
        {"llama-4-scout", "nope", 12, 3, 4},
        {"smollm3-3b", "nope", 9, 3, 4},
        {"gemma-3-4b", "full_attention", 5, 5, 6},
        {"gemma-3-12b", "full_attention", 8, 5, 6},
        {"gpt-oss-20b", "full_attention", 12, 1, 2},
        {"gemma-2-9b", "full_attention", 21, 1, 2},
        {"command-r7b", "full_attention", 8, 3, 4},
        {"modernbert-base", "full_attention", 8, 0, 3},
        {"laguna-xs.2", "full_attention", 10, 0, 4},
        {"cwm", "full_attention", 16, 0, 4},
        {"qwen3-next-80b", "full_attention", 12, 3, 4},
        {"gemma-3-1b", "full_attention", 4, 5, 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *reading = open_config(rows[i].file);
        const gyre_layer_reading *group = need_group(reading, rows[i].file, rows[i].group);
        same_whole(rows[i].file, rows[i].group, "number of layers", group->layers_count, rows[i].count);
        for (int64_t l = 0; l < rows[i].count; l++)
            same_whole(rows[i].file, rows[i].group, "layer", group->layers[l], rows[i].first + l * rows[i].step);
        gyre_reading_free(reading);
    }
}

/* "truncate": false of gpt-oss, and no other. */
static void test_fractional_bounds(void **state) {
    (void)state;
    gyre_reading *reading = open_config("gpt-oss-20b");
    assert_true(need_group(reading, "gpt-oss-20b", "full_attention")->config.rope.fractional_bounds);
    gyre_reading_free(reading);
    reading = open_config("qwen2.5-7b-yarn");
    assert_false(reading->groups[0].config.rope.fractional_bounds);
    gyre_reading_free(reading);
}

/* -- everything else ------------------------------------------------------------------------------------------------------
 */
static void check_other(const other *row) {
    gyre_reading *reading = open_config(row->file);
    const gyre_layer_reading *group = need_group(reading, row->file, row->group);
    same_whole(row->file, row->group, "kind", group->config.kind, row->kind);
    gyre_encoding *encoding = test_encoding(&group->config);
    const gyre_config *config = gyre_encoding_config(encoding);
    if (row->heads) same_whole(row->file, row->group, "heads", config->heads, row->heads);
    if (row->positions) same_whole(row->file, row->group, "rows of the table", config->input.positions, row->positions);
    if (row->kind == GYRE_LEARNED || row->kind == GYRE_SINUSOIDAL)
        same_whole(row->file, row->group, "offset", config->input.offset, row->offset);
    if (row->distance) same_whole(row->file, row->group, "distance", config->score.max_distance, row->distance);
    if (row->kind == GYRE_T5 || row->kind == GYRE_DEBERTA)
        same_whole(row->file, row->group, "buckets", config->score.buckets, row->buckets);
    if (row->kind == GYRE_T5 || row->kind == GYRE_TRANSFORMER_XL)
        same_whole(row->file, row->group, "both directions", config->score.bidirectional, row->bidirectional);
    if (row->terms) same_whole(row->file, row->group, "terms", config->score.terms, row->terms);
    gyre_encoding_free(encoding);
    gyre_reading_free(reading);
}

static void test_others(void **state) {
    (void)state;
    for (size_t i = 0; i < OTHERS; i++)
        check_other(&others[i]);
}

static void test_sinusoids(void **state) {
    (void)state;
    static const struct {
        const char *file, *group;
        gyre_sinusoid layout;
        int64_t dim;
    } rows[] = {
        {"whisper-tiny", "encoder", GYRE_SIN_TENSOR2TENSOR, 384},
        {"opus-mt-en-de", NULL, GYRE_SIN_CONCATENATED, 512},
        {"m2m100-418m", NULL, GYRE_SIN_TENSOR2TENSOR, 1024},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gyre_reading *reading = open_config(rows[i].file);
        const struct gyre_input_config *input = &need_group(reading, rows[i].file, rows[i].group)->config.input;
        same_whole(rows[i].file, rows[i].group, "layout", input->layout, rows[i].layout);
        same_whole(rows[i].file, rows[i].group, "width", input->dim, rows[i].dim);
        gyre_reading_free(reading);
    }
}

/* BLOOM's slopes for 112 heads begin at 2^(-1/8) and end among the odd powers of 2^(-1/16); Falcon's are divided by the
 * square root of its head size. */
static void test_slopes(void **state) {
    (void)state;
    static const struct {
        const char *file;
        int64_t heads;
        double first, last;
    } rows[] = {
        {"bloom-7b1", 32, 0.8408964152537145, 0.00390625},             /* 2^-0.25 .. 2^-8 */
        {"bloom-176b", 112, 0.9170040432046712, 0.016316777850428427}, /* 2^-0.125 .. 2^-5.9375 */
        {"mpt-7b", 32, 0.8408964152537145, 0.00390625},
        {"falcon-rw-1b", 32, 0.10511205190671431, 0.00048828125}, /* the same / 8 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double slopes[112];
        gyre_reading *reading = open_config(rows[i].file);
        gyre_encoding *encoding = test_encoding(&reading->groups[0].config);
        same_whole(rows[i].file, NULL, "heads", gyre_encoding_config(encoding)->heads, rows[i].heads);
        assert_ok(gyre_encoding_slopes(encoding, slopes));
        test_close((long double)slopes[0], (long double)rows[i].first, 1e-12L, rows[i].file);
        test_close((long double)slopes[rows[i].heads - 1], (long double)rows[i].last, 1e-12L, rows[i].file);
        gyre_encoding_free(encoding);
        gyre_reading_free(reading);
    }
}

/* -- all of them ----------------------------------------------------------------------------------------------------------
 */
static int is_expected(const char *file, size_t length) {
    for (size_t i = 0; i < ROTATIONS; i++)
        if (strlen(rotations[i].file) == length && strncmp(rotations[i].file, file, length) == 0) return 1;
    for (size_t i = 0; i < OTHERS; i++)
        if (strlen(others[i].file) == length && strncmp(others[i].file, file, length) == 0) return 1;
    return 0;
}

/* The other way round, a row without its file, fails where it is opened. */
static void test_every_file_is_expected(void **state) {
    (void)state;
    int files = 0;
    DIR *folder = opendir(GYRE_TEST_DATA "/configs");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        if (!is_expected(entry->d_name, (size_t)(dot - entry->d_name))) fail_msg("nothing expected of %s", entry->d_name);
        files++;
    }
    closedir(folder);
    assert_int_equal(files, 129);
}

/* Every field and warning of every file can be shown, and has the place that it says. */
static void check_fields(const gyre_reading *reading, const char *file) {
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const gyre_layer_reading *group = &reading->groups[g];
        if (group->fields_count == 0) fail_msg("%s, %s: nothing to show", file, group->name);
        for (int64_t i = 0; i < group->fields_count; i++) {
            const gyre_reading_field *field = &group->fields[i];
            assert_non_null(field->name);
            if (!field->value || !*field->value) fail_msg("%s, %s: %s without a value", file, group->name, field->name);
            if (field->origin == GYRE_FROM_FILE && (!field->key || field->line < 1))
                fail_msg("%s, %s: %s is from the file, from nowhere in it", file, group->name, field->name);
        }
    }
    for (int64_t i = 0; i < reading->warnings_count; i++)
        assert_true(reading->warnings[i].text && *reading->warnings[i].text);
}

static void test_fields(void **state) {
    (void)state;
    const char *last = "";
    for (size_t i = 0; i < ROTATIONS + OTHERS; i++) {
        const char *file = i < ROTATIONS ? rotations[i].file : others[i - ROTATIONS].file;
        if (strcmp(file, last) == 0) continue;
        gyre_reading *reading = open_config(file);
        check_fields(reading, file);
        gyre_reading_free(reading);
        last = file;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_file_is_expected),
        cmocka_unit_test(test_rotations),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_temperatures),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_first_channels),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_fractional_bounds),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_sinusoids),
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

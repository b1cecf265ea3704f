/* examples.ts: configs to begin with, from the tests of the library. */
import deepseek from "../../tests/configs/deepseek-v3.json";
import gemma from "../../tests/configs/gemma-3-4b.json";
import gptOss from "../../tests/configs/gpt-oss-20b.json";
import llama from "../../tests/configs/llama-3.1-8b.json";
import qwen from "../../tests/configs/qwen2.5-7b.json";

const configs: [string, object][] = [
    ["Llama 3.1 8B", llama],
    ["Qwen2.5 7B", qwen],
    ["gpt-oss 20B", gptOss],
    ["Gemma 3 4B", gemma],
    ["DeepSeek-V3", deepseek],
];

/** Names, and texts of config.json. */
export const examples: [string, string][] = configs.map(([name, config]) => [name, JSON.stringify(config, null, 2)]);

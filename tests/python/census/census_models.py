"""The config of every type of transformers, its model, and calls that make the model run."""

import contextlib
import copy
import importlib
import inspect
import itertools
from pathlib import Path

import torch
import transformers
from census import light_model
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()

TOKENS = 8
LARGE_IMAGE = 512  # pixels; of larger ones a few patches are tried first
MOST_CALLS = 60  # with all inputs together

# Settings without a default, without which a class builds no model or the model does not run.  None concerns positions.
WITHOUT_DEFAULT = {
    "vocab_size": 1000, "n_routed_experts": 8, "num_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    "n_group": 1, "topk_group": 1, "vocabulary_map": {"<image>": 4}, "decoder_start_token_id": 1, "pad_token_id": 0,
    "n_shared_experts": 1, "moe_intermediate_size": 64, "top_k_experts": 2,
}
DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
MROPE_OF_GLM = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}
MROPE_OF_HUNYUAN = DEFAULT_ROPE | {"mrope_section": [16, 16, 16, 16]}
QSA_OF_QWEN = {"rope_parameters": DEFAULT_ROPE | {"partial_rotary_factor": 0.25}, "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 64, "indexer_compress_ratio": 4}
# Settings of single types: those that published files have and the class has no working default of, or an option that makes
# the type rotate.
OF_TYPE = {
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8}},
    "cohere_compass": {"text_config": {"rope_parameters": {"full_attention": DEFAULT_ROPE}}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": DEFAULT_ROPE}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense"] + ["sparse"] * 31}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] + ["sparse"] * 31},
    "esm": {"position_embedding_type": "rotary", "mask_token_id": 32},
    "glm46v": {"text_config": {"rope_parameters": MROPE_OF_GLM, "model_type": "glm4v_text"}},
    "glm4v": {"text_config": {"rope_parameters": MROPE_OF_GLM}},
    "glm4v_moe": {"text_config": {"rope_parameters": MROPE_OF_GLM, "head_dim": 128}},
    "glm4v_moe_text": {"rope_parameters": MROPE_OF_GLM, "head_dim": 128},
    "glm4v_text": {"rope_parameters": MROPE_OF_GLM},
    "glm_image": {"text_config": {"rope_parameters": MROPE_OF_GLM}},
    "glm_image_text": {"rope_parameters": MROPE_OF_GLM},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config": {"head_dim": 128, "rope_parameters": MROPE_OF_HUNYUAN}},
    "hunyuan_vl_text": {"head_dim": 128, "rope_parameters": MROPE_OF_HUNYUAN},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "ministral": {"head_dim": 128},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "nemotron": {"num_key_value_heads": 8},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 64},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen3_omni_moe": {"thinker_config": {"text_config": {"head_dim": 128}}},
    "qwen3_omni_moe_thinker": {"text_config": {"head_dim": 128}},
    "qwen4_exp": {"text_config": QSA_OF_QWEN},
    "qwen4_exp_text": QSA_OF_QWEN,
    "step3p5": {"sliding_window": 512},
    "step3p7": {"text_config": {"sliding_window": 512}},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "wav2vec2-bert": {"position_embeddings_type": "rotary"},
    "wav2vec2-conformer": {"position_embeddings_type": "rotary"},
}  # fmt: skip
# Numbers of experts do not matter for positions, and thousands of modules take minutes to create.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
MANY_EXPERTS = 16


class CannotBuild(Exception):
    """transformers builds no model of a type; the text says why."""


def config_of(name):
    """The class's defaults, completed where the class has none of a setting that its model needs."""
    kind = CONFIG_MAPPING[name]
    given = dict(OF_TYPE.get(name, {}))
    config = kind(**given)
    missing = {key: value for key, value in WITHOUT_DEFAULT.items() if key not in given and is_missing(config, key)}
    missing.pop("pad_token_id", None)
    with contextlib.suppress(Exception):
        config = kind(**given, **missing)
    for part in list(parts_of(config))[1:]:
        for key, value in WITHOUT_DEFAULT.items():
            if is_missing(part, key):
                setattr(part, key, value)
    return config


def is_missing(config, key):
    """Whether a setting has no value; one that differs by layers has."""
    with contextlib.suppress(Exception):
        return getattr(config, key, 0) is None
    return False


def modeling_files(name):
    """The source of the models of a type."""
    parts = CONFIG_MAPPING[name].__module__.split(".")
    folder = Path(transformers.__file__).parent.joinpath(*parts[1:-1])
    return "\n".join(path.read_text() for path in sorted(folder.glob("modeling_*.py")))


def parts_of(config):
    yield config
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if isinstance(part, transformers.PreTrainedConfig):
            yield from parts_of(part)


def with_few_experts(config):
    config = copy.deepcopy(config)
    for part in parts_of(config):
        for key in EXPERTS:
            with contextlib.suppress(Exception):  # a setting by layers
                if getattr(part, key, 0) > MANY_EXPERTS:
                    setattr(part, key, MANY_EXPERTS)
    return config


def classes_beside(config):
    """Model classes beside the config class that take it, those without a head first."""
    name = type(config).__module__.replace(".configuration_", ".modeling_")
    found = []
    for kind in vars(importlib.import_module(name)).values():
        if not (inspect.isclass(kind) and issubclass(kind, transformers.PreTrainedModel) and kind.__module__ == name):
            continue
        hint = inspect.signature(kind.__init__).parameters.get("config")
        takes = {getattr(kind, "config_class", None), hint and hint.annotation}
        if takes & {type(config), type(config).__name__} and "forward" in vars(kind):
            found.append(kind)
    return sorted(found, key=lambda kind: (not kind.__name__.endswith("Model"), "For" in kind.__name__))


def build(config):
    """The model of the first class that builds, without weights."""
    mapped = transformers.MODEL_MAPPING[type(config)] if type(config) in transformers.MODEL_MAPPING else ()
    why = "no model class takes this config"
    for kind in [*(mapped if isinstance(mapped, tuple) else [mapped]), *classes_beside(config)]:
        for part in (with_few_experts(config), config):
            try:
                model = light_model.build(lambda kind=kind, part=part: kind(copy.deepcopy(part)))
            except Exception as error:
                told = f"{kind.__name__} raises {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
                why = told if why.startswith("no model") else why
                continue
            light_model.run_once(model)
            return model
    raise CannotBuild(why)


def build_or_text_part(config):
    """(model, config of it): where no model of the whole is built, that of its text part."""
    try:
        return build(config), config
    except CannotBuild as why:
        part = config.get_text_config()
        if part is config:
            raise
        with contextlib.suppress(CannotBuild):
            return build(part), part
        raise why from None


def setting(config, *names, default=None):
    """The first of some settings that config, its text part or another part has."""
    for part in (config, config.get_text_config(), *parts_of(config)):
        for name in names:
            with contextlib.suppress(Exception):
                if isinstance(getattr(part, name), int):
                    return getattr(part, name)
    return default


def image_of(config):
    for part in (config, getattr(config, "vision_config", None)):
        size = getattr(part, "image_size", None)
        if isinstance(size, (list, tuple)) and len(size) == 2:
            return tuple(size)
        if isinstance(size, int):
            return size, size
    return 224, 224


def inputs(config):
    """Values of each argument that a model may take, the likeliest first."""
    ids = torch.arange(5, 5 + TOKENS)[None]
    width = setting(config, "hidden_size", "d_model", "n_embd", "dim", "embed_dim", default=64)
    channels = setting(config, "num_channels", "in_channels", default=3)
    patch = setting(config, "patch_size", default=14)
    inside = channels * setting(config, "temporal_patch_size", default=1) * patch * patch
    mel = setting(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", default=80)
    codes = setting(config, "num_codebooks", "num_channels", default=9)
    image, small = torch.zeros(1, channels, *image_of(config)), torch.zeros(1, channels, 8 * patch, 8 * patch)
    images = [small, image] if max(image.shape[-2:]) > LARGE_IMAGE else [image, small]
    return {
        "input_ids": [ids, ids[..., None].expand(1, TOKENS, codes)],
        "inputs_embeds": [torch.zeros(1, TOKENS, width)],
        "hidden_states": [torch.zeros(1, TOKENS, width), torch.zeros(64, inside), torch.zeros(64, width)],
        "pixel_values": [*images, image[:, None], torch.zeros(64, inside), torch.zeros(1, 64, inside),
                         torch.zeros(64, channels, patch, patch), torch.zeros(1, 64, channels, patch, patch)],
        "pixel_values_videos": [torch.zeros(1, 16, *image.shape[1:])],
        "input_features": [torch.zeros(1, mel, 64), torch.zeros(1, 64, mel), torch.zeros(1, mel, 3000),
                           torch.zeros(1, 64, 2 * mel)],
        "input_values": [torch.zeros(1, 16000), torch.zeros(1, 1, 16000), torch.zeros(1, 64, mel), torch.zeros(1, 1, 19200)],
        "noise_embeds": [torch.zeros(1, TOKENS, width)],
        "past_values": [torch.zeros(1, 512)],
        "latents": [torch.zeros(1, width, 32), torch.zeros(1, 32, width)],
    }  # fmt: skip


def calls(model, config):
    """Arguments to call the model with, the likeliest first: one input, with what is needed beside it; then all inputs."""
    names = inspect.signature(model.forward).parameters
    common = {"use_cache": False} if "use_cache" in names else {}
    values = inputs(config)
    grid = torch.tensor([[1, 8, 8]])
    ids, embeds = values["input_ids"][0], values["inputs_embeds"][0]
    rows, columns = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    places = torch.stack([columns, rows], -1).reshape(1, 64, 2)
    beside = {
        "grid_thw": grid, "image_grid_thw": grid, "num_patches": 64, "decoder_input_ids": ids, "cross_attention_states": None,
        "encoder_hidden_states": embeds, "encoder_embeds": embeds, "patch_embeds": embeds, "merge_sizes": torch.tensor([1]), "pixel_position_ids": places,
        "image_position_ids": places, "spatial_shapes": torch.tensor([[8, 8]]), "pixel_attention_mask": torch.ones(1, 64),
        "patch_attention_mask": torch.ones(1, 8, 8, dtype=torch.bool), "attention_mask": torch.ones(1, TOKENS),
        "grid_hws": torch.tensor([[8, 8]]), "grid_hw": torch.tensor([[8, 8]]), "target_sizes": torch.tensor([[8, 8]]),
        "context_hidden_states": embeds, "chunk_sample_lengths": torch.tensor([16000]), "mask": torch.ones(1, 64), "aspect_ratio_ids": torch.tensor([[1]]),
        "aspect_ratio_mask": torch.ones(1, 1, 4), "feature_lens": torch.tensor([64]), "aftercnn_lens": torch.tensor([32]),
    }  # fmt: skip
    beside |= {name: each[0] for name, each in values.items()}
    needed = {n for n, p in names.items() if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD}
    wanted = needed | ({"decoder_input_ids", "aftercnn_lens", "patch_embeds"} & set(names))
    extra = {n: v for n, v in beside.items() if n in wanted}
    for key, likely in values.items():
        for value in likely if key in names else []:
            yield {**common, **extra, key: value}
    tables = {n: v for n, v in beside.items() if n in names and n not in values and n.startswith(("grid", "image_", "spatial", "target"))}
    for key in ("pixel_values", "hidden_states"):
        for value in values[key] if key in names and tables else []:
            yield {**common, **extra, **tables, key: value}
    together = {n: v for n, v in values.items() if n in names and n not in ("inputs_embeds", "hidden_states")}
    if len(together) > 1:
        masks = {"image_attention_mask": torch.ones(1, TOKENS, 1)} if "image_attention_mask" in names else {}
        for each in itertools.islice(itertools.product(*together.values()), MOST_CALLS):
            yield {**common, **extra, **masks, **dict(zip(together, each))}

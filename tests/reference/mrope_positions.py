#!/usr/bin/env python3
"""Writes mrope_5.json or mrope_4.json: positions of text, images and videos from get_rope_index of the installed transformers
(5.23.0 and 4.57.6), for random padded batches.  Needs transformers and torch.

    tests/reference/mrope_positions.py > tests/reference/mrope_5.json

A case has form, padding (the position of padding), after ("sides" or "largest", see gyre_after_grid), mask (a string of 0 and 1
for each row), spans (for each row: [tokens] of text or [frames, rows, columns, frame step]), positions ([axis][row][token]) and
next (the position after the last token of each row).
"""
import functools
import importlib
import json
import random
import types

import torch
import transformers

NEW = int(transformers.__version__.split(".")[0]) >= 5
MODELS = {
    "qwen2_vl": "Qwen2VLModel",
    "qwen2_5_vl": "Qwen2_5_VLModel",
    "qwen3_vl": "Qwen3VLModel",
}
MERGE, TOKENS_PER_SECOND, IMAGE, VIDEO, START = 2, 25, 101, 102, 103


def fake_model(kind):
    cls = getattr(importlib.import_module(f"transformers.models.{kind}.modeling_{kind}"), MODELS[kind])
    vision = types.SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=TOKENS_PER_SECOND)
    config = types.SimpleNamespace(vision_config=vision, image_token_id=IMAGE, video_token_id=VIDEO,
                                   vision_start_token_id=START)
    model = types.SimpleNamespace(config=config)
    if hasattr(cls, "get_vision_position_ids"):
        model.get_vision_position_ids = functools.partial(cls.get_vision_position_ids, model)
    return functools.partial(cls.get_rope_index, model)


class Row:
    def __init__(self, kind, rng, media):
        self.spans, self.ids, self.types = [], [], []
        self.images, self.videos, self.seconds = [], [], []
        for _ in range(media):
            self.text(rng.randint(0, 6), start=True)
            rows, columns = rng.randint(1, 5), rng.randint(1, 5)
            if rng.random() < 0.5:
                self.images.append([1, rows * MERGE, columns * MERGE])
                self.grid(1, rows, columns, 1.0, IMAGE)
                continue
            frames = rng.randint(1, 9)
            self.videos.append([frames, rows * MERGE, columns * MERGE])
            if kind == "qwen3_vl":  # the time of each frame is text
                for f in range(frames):
                    if f > 0:
                        self.text(rng.randint(1, 4), start=True)
                    self.grid(1, rows, columns, 1.0, VIDEO)
                continue
            step = 1.0
            if kind == "qwen2_5_vl":
                self.seconds.append(rng.choice([0.04, 0.1, 0.5, 1.0, 1.0 / 3]))
                step = TOKENS_PER_SECOND * self.seconds[-1]
            self.grid(frames, rows, columns, step, VIDEO)
        self.text(rng.randint(1, 6))

    def text(self, tokens, start=False):
        self.spans.append([tokens + start])
        self.ids += [7] * tokens + [START] * start
        self.types += [0] * (tokens + start)

    def grid(self, frames, rows, columns, step, token):
        self.spans.append([frames, rows, columns, step])
        self.ids += [token] * (frames * rows * columns)
        self.types += [1 if token == IMAGE else 2] * (frames * rows * columns)


def place(row, form, width, rng):
    n = len(row.ids)
    if form == "masked":
        return sorted(rng.sample(range(width), n))
    return list(range(width - n, width)) if form == "left" else list(range(n))


def make_case(kind, form, rng):
    rows = [Row(kind, rng, rng.randint(0 if i else 1, 3)) for i in range(rng.randint(1, 3))]
    width = max(len(r.ids) for r in rows) + rng.randint(0, 5)
    ids, token_types, mask = (torch.zeros(len(rows), width, dtype=torch.long) for _ in range(3))
    for i, row in enumerate(rows):
        at = torch.tensor(place(row, form, width, rng))
        ids[i, at], token_types[i, at], mask[i, at] = torch.tensor(row.ids), torch.tensor(row.types), 1
    grids = {name: torch.tensor(sum((getattr(r, name) for r in rows), [])) for name in ("images", "videos")}
    grids = {name: value if len(value) else None for name, value in grids.items()}
    arguments = {"image_grid_thw": grids["images"], "video_grid_thw": grids["videos"], "attention_mask": mask}
    if kind == "qwen2_5_vl":
        seconds = sum((r.seconds for r in rows), [])
        arguments["second_per_grid_ts"] = seconds or None
    if NEW:
        arguments["mm_token_type_ids"] = token_types
    positions, delta = fake_model(kind)(ids, **arguments)
    lengths = mask.sum(1).tolist()
    # The delta of transformers 4 counts padding on some paths: the position after the last token is told by the text there.
    last = [int(positions[0, i, mask[i].bool()][-1]) + 1 for i in range(len(rows))]
    return {"model": kind, "form": form, "padding": 0 if NEW else 1, "after": "sides" if NEW else "largest",
            "mask": ["".join(map(str, m)) for m in mask.tolist()], "spans": [r.spans for r in rows], "lengths": lengths,
            "positions": positions.tolist(), "next": last}


def main():
    rng = random.Random(19)
    # Seconds are cut to whole numbers in qwen2_5_vl of transformers 4, and it has no mask with holes.
    kinds = MODELS if NEW else ["qwen2_vl"]
    forms = ["right", "left", "masked"] if NEW else ["right", "left"]
    cases = [make_case(kind, forms[i % len(forms)], rng) for kind in kinds for i in range(12)]
    print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")


main()

"""What one attention layer of a model took and returned, and the same by gyre."""

import gyre
import numpy as np
import torch


def layer_call(model, layer, *arguments, **named):
    """(what the layer took, what it returned) in one run of the model."""
    seen = {}
    before = layer.register_forward_pre_hook(lambda _, args, kwargs: seen.update(args=args, kwargs=kwargs), with_kwargs=True)
    after = layer.register_forward_hook(lambda _, args, output: seen.update(output=output[0]))
    with torch.no_grad():
        result = model(*arguments, **named)
    before.remove()
    after.remove()
    return seen, result


def randomize(model):
    for name, parameter in model.named_parameters():
        if "norm" not in name.lower():
            torch.nn.init.normal_(parameter, std=0.3)


def attend(encoding, q, k, v, **named):
    """q, k, v and the result: [tokens, heads, channels]."""
    q, k, v = (np.ascontiguousarray(x.detach().numpy().transpose(1, 0, 2))[None] for x in (q, k, v))
    return torch.as_tensor(np.asarray(gyre.attention(q, k, v, encoding=encoding, **named))[0].transpose(1, 0, 2).copy())


def tables_of(rows, content_bias, position_bias):
    """rows: r of every row of the table, [rows, heads, channels]."""
    bias = {"content_bias": content_bias, "position_bias": position_bias}
    return {"query": np.ascontiguousarray(rows.detach().numpy().transpose(1, 0, 2))[None]} | {
        name: np.ascontiguousarray(x.detach().numpy()[:, None])[None] for name, x in bias.items()
    }

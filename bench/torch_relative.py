"""Relative positions with tables in PyTorch: DeBERTa v3's and BERT's, as transformers writes them and leaner."""
import math

HEADS, CHANNELS = 12, 64


# -- the inputs of a case, and the score of one query and key in plain numbers ------------------------------------------
class Shape:
    def __init__(self, tokens, heads=HEADS, channels=CHANNELS, buckets=256, farthest=512):
        self.tokens, self.heads, self.channels = tokens, heads, channels
        self.buckets, self.farthest = buckets, farthest  # DeBERTa's


def make_inputs(torch, shape, rows, tables, per_head):
    """q, k, v as [heads, tokens, channels], then the tables."""
    random = torch.Generator().manual_seed(1)
    inputs = [torch.randn(shape.heads, shape.tokens, shape.channels, generator=random) for _ in range(3)]
    for _ in range(tables):
        size = (shape.heads, rows, shape.channels) if per_head else (rows, shape.channels)
        inputs.append(0.3 * torch.randn(size, generator=random))
    return inputs


def bucket(distance, shape):
    """DeBERTa v2 and v3: distances up to half the buckets as they are, farther ones in logarithmic steps."""
    middle, far = shape.buckets // 2, abs(distance)
    if far <= middle:
        return distance
    steps = math.ceil(math.log(far / middle) / math.log((shape.farthest - 1) / middle) * (middle - 1)) + middle
    return int(math.copysign(steps, distance))


def expected(shape, inputs, scheme):
    """The attention by its formula, one number at a time, in double."""
    import numpy as np
    q, k, v, *tables = [x.numpy().astype(np.float64) for x in inputs]
    out = np.zeros_like(q)
    n, d = shape.tokens, shape.channels
    for h in range(shape.heads):
        for i in range(n):
            scores = []
            for j in range(n):
                content = float(q[h, i] @ k[h, j])
                if scheme == "bert":
                    vector = tables[0][i - j + n - 1]
                    scores.append((content + q[h, i] @ vector + k[h, j] @ vector) / math.sqrt(d))
                else:
                    row = min(max(bucket(i - j, shape) + shape.buckets, 0), 2 * shape.buckets - 1)
                    scores.append((content + q[h, i] @ tables[0][h, row] + k[h, j] @ tables[1][h, row]) / math.sqrt(3 * d))
            weights = np.exp(np.array(scores) - max(scores))
            out[h, i] = weights / weights.sum() @ v[h, : len(scores)]
    return out


# -- the ways to write them in torch ------------------------------------------------------------------------------------
# Each makes what a model makes once for all its layers or calls, and returns the call that is timed.
def bert_einsum(torch, shape, inputs):
    """As transformers did: a vector for every pair is looked up in each call, then multiplied from both sides."""
    q, k, v, table = inputs

    def call():
        places = torch.arange(shape.tokens)
        vectors = table[places[:, None] - places[None, :] + shape.tokens - 1]
        scores = q @ k.transpose(-1, -2)
        of_query = torch.einsum("bhld,lrd->bhlr", q[None], vectors)
        of_key = torch.einsum("bhrd,lrd->bhlr", k[None], vectors)
        scores = (scores[None] + of_query + of_key) / math.sqrt(shape.channels)
        return (torch.softmax(scores, -1) @ v[None])[0]
    return call


def bert_gather(torch, shape, inputs):
    """Leaner than transformers: products with the whole table, the wanted ones gathered."""
    q, k, v, table = inputs
    places = torch.arange(shape.tokens)
    rows = places[:, None] - places[None, :] + shape.tokens - 1
    of_query = rows[None].expand(shape.heads, -1, -1)
    of_key = rows.t().contiguous()[None].expand(shape.heads, -1, -1)

    def call():
        scores = q @ k.transpose(-1, -2)
        scores += torch.gather(q @ table.t(), -1, of_query)
        scores += torch.gather(k @ table.t(), -1, of_key).transpose(-1, -2)
        scores *= 1 / math.sqrt(shape.channels)
        return torch.softmax(scores, -1) @ v
    return call


def deberta_rows(torch, shape):
    span = shape.buckets
    of = torch.tensor([bucket(r, shape) for r in range(-shape.tokens + 1, shape.tokens)])
    places = torch.arange(shape.tokens)
    distance = of[places[:, None] - places[None, :] + shape.tokens - 1]
    expand = (shape.heads, -1, -1)
    return (torch.clamp(distance + span, 0, 2 * span - 1)[None].expand(expand),
            torch.clamp(-distance + span, 0, 2 * span - 1)[None].expand(expand))


def deberta_gather(torch, shape, inputs):
    """As transformers: both products with the tables, gathered, divided and added; rows and projections made beforehand."""
    q, k, v, table_key, table_query = inputs
    to_position, to_content = deberta_rows(torch, shape)
    scale = math.sqrt(3 * shape.channels)

    def call():
        scores = torch.bmm(q, k.transpose(-1, -2) / scale)
        c2p = torch.gather(torch.bmm(q, table_key.transpose(-1, -2)), -1, to_position)
        positions = c2p / scale
        p2c = torch.gather(torch.bmm(k, table_query.transpose(-1, -2)), -1, to_content).transpose(-1, -2)
        positions += p2c / scale
        return torch.bmm(torch.softmax(scores + positions, -1), v)
    return call


def deberta_lean(torch, shape, inputs):
    """Leaner than transformers: scaled once on the small sides, added in place."""
    q, k, v, table_key, table_query = inputs
    to_position, to_content = deberta_rows(torch, shape)
    scale = 1 / math.sqrt(3 * shape.channels)

    def call():
        scaled = q * scale
        scores = torch.bmm(scaled, k.transpose(-1, -2))
        scores += torch.gather(torch.bmm(scaled, table_key.transpose(-1, -2)), -1, to_position)
        scores += torch.gather(torch.bmm(k * scale, table_query.transpose(-1, -2)), -1, to_content).transpose(-1, -2)
        return torch.bmm(torch.softmax(scores, -1), v)
    return call


# -- for bench/against ----------------------------------------------------------------------------------------------------
WAYS = {"deberta": {"gather": deberta_gather, "lean": deberta_lean}, "bert": {"einsum": bert_einsum, "gather": bert_gather}}


def inputs_of(torch, scheme, shape):
    rows = 2 * shape.buckets if scheme == "deberta" else 2 * shape.tokens - 1
    return make_inputs(torch, shape, rows, 2 if scheme == "deberta" else 1, scheme == "deberta")


def way_of(scheme, label):
    return lambda torch, n: WAYS[scheme][label](torch, Shape(n), inputs_of(torch, scheme, Shape(n)))


def error_of(scheme, label):
    """Small buckets: the logarithmic ones are met."""
    def error(torch, _make):
        shape = Shape(24, heads=3, channels=8, buckets=8, farthest=16)
        given = inputs_of(torch, scheme, shape)
        return float(abs(WAYS[scheme][label](torch, shape, given)().numpy() - expected(shape, given, scheme)).max())
    return error

"""Language models of random weights, built as optimum-intel exports them: a cache in variables, rotary embedding,
fewer heads of keys than of queries, and weights of 16, 8 or 4 bits."""
import json
import shutil
from dataclasses import dataclass

import numpy as np
import openvino as ov
from openvino import opset13 as op

# OpenVINO reads constants of 4 bits from the memory of NumPy arrays, which must live as long.
KEPT = []
LAST = 2**63 - 1


@dataclass(frozen=True)
class Sizes:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    vocab: int
    bits: int = 16
    group: int = 128
    # The logits of the last token alone, as LLMPipeline makes of a model when it loads it.
    last_only: bool = False

    @property
    def head(self):
        return self.hidden // self.heads

    def cache_bytes(self, tokens):
        return 2 * 4 * self.layers * self.kv_heads * self.head * tokens


def integers(rng, shape, bits, low=0, high=None):
    """A constant of unsigned integers. Two of 4 bits share a byte."""
    high = high or 2**bits
    count = int(np.prod(shape))
    if bits == 8:
        return op.constant(rng.integers(low, high, shape, dtype=np.uint8))
    if low == 0 and high == 16:
        packed = rng.integers(0, 256, count // 2, dtype=np.uint8)
    else:
        pairs = rng.integers(low, high, (count // 2, 2), dtype=np.uint8)
        packed = pairs[:, 0] | pairs[:, 1] << 4
    KEPT.append(packed)
    return op.constant(ov.Tensor(packed, ov.Shape(list(shape)), ov.Type.u4))


def compressed(rng, rows, columns, bits, group):
    """A matrix of integers with a scale and a zero point for each group, as NNCF writes it."""
    groups = columns // group
    middle = 2 ** (bits - 1)
    scales = rng.uniform(0.5, 1.5, (rows, groups, 1)) * 3**0.5 / (middle * columns**0.5)
    # One group for each row needs no dimension of its own.
    shape = (rows, columns) if groups == 1 else (rows, groups, group)
    whole = integers(rng, shape, bits)
    zeros = integers(rng, (*shape[:-1], 1), bits, middle - 1, middle + 1)
    real = op.subtract(op.convert(whole, 'f16'), op.convert(zeros, 'f16'))
    real = op.multiply(real, op.constant(scales.reshape(*shape[:-1], 1).astype(np.float16)))
    if groups > 1:
        real = op.reshape(real, op.constant([rows, columns]), False)
    return op.convert(real, 'f32')


def matrix(rng, rows, columns, bits, group):
    if bits == 16:
        values = rng.standard_normal((rows, columns), dtype=np.float32) / np.float32(columns**0.5)
        return op.constant(values)
    return compressed(rng, rows, columns, bits, group)


def linear(rng, x, rows, columns, sizes, bits=None):
    return op.matmul(x, matrix(rng, rows, columns, bits or sizes.bits, sizes.group), False, True)


def rms_norm(rng, x, hidden):
    weight = op.constant(rng.uniform(0.8, 1.2, (1, 1, hidden)).astype(np.float32))
    constant = lambda value: op.constant(np.full((1, 1, 1), value, np.float32))
    mean = op.reduce_mean(op.power(x, constant(2)), op.constant([-1]), keep_dims=True)
    scale = op.divide(constant(1), op.sqrt(op.add(mean, constant(1e-6))))
    return op.multiply(weight, op.multiply(x, scale))


def scalar(value, of=np.int64):
    return op.constant(np.array(value, of))


def size_along(x, axis):
    """The size along an axis as a scalar."""
    return op.gather(op.shape_of(x, 'i64'), scalar(axis), scalar(0))


def angles(positions, head):
    """Cosines and sines of the rotary embedding, [batch, 1, tokens, head]."""
    inverse = (1 / 10000 ** (np.arange(0, head, 2) / head)).astype(np.float32).reshape(1, 1, -1)
    turns = op.multiply(op.convert(op.unsqueeze(positions, scalar(2)), 'f32'), op.constant(inverse))
    both = op.concat([turns, turns], -1)
    return [op.unsqueeze(of(both), scalar(1)) for of in (op.cos, op.sin)]


def rotate(x, cosines, sines, head):
    def part(begin, end):
        return op.slice(x, op.constant([begin]), op.constant([end]), op.constant([1]), op.constant([3]))
    turned = op.concat([op.multiply(part(head // 2, LAST), op.constant(np.float32(-1))), part(0, head // 2)], -1)
    return op.add(op.multiply(x, cosines), op.multiply(turned, sines))


def split_heads(x, heads, head):
    return op.transpose(op.reshape(x, op.constant([0, 0, heads, head]), True), op.constant([0, 2, 1, 3]))


class Builder:
    def __init__(self, sizes, seed=0):
        self.sizes, self.rng, self.sinks = sizes, np.random.default_rng(seed), []
        parameter = lambda name, rank, kind: op.parameter(ov.PartialShape([-1] * rank), kind, name=name)
        self.ids = parameter('input_ids', 2, np.int64)
        self.attention_mask = parameter('attention_mask', 2, np.int64)
        self.positions = parameter('position_ids', 2, np.int64)
        self.beams = parameter('beam_idx', 1, np.int32)
        self.batch = op.gather(op.shape_of(self.ids, 'i64'), op.constant([0]), scalar(0))
        self.mask = self.past = None

    def cached(self, new, layer, what):
        """Keys or values of all tokens: those of a variable and the new ones."""
        sizes, name = self.sizes, f'past_key_values.{layer}.{what}present.{layer}.{what}'
        empty = op.concat([self.batch, op.constant([sizes.kv_heads]), op.constant([0]), op.constant([sizes.head])], 0)
        shape = ov.PartialShape([-1, sizes.kv_heads, -1, sizes.head])
        state = op.read_value(op.broadcast(scalar(0, np.float32), empty), name, ov.Type.f32, shape)
        before = op.gather(state, self.beams, scalar(0))
        if self.past is None:
            self.past = size_along(before, 2)
        every = op.concat([before, new], -2)
        self.sinks.append(op.assign(every, name))
        return every

    def repeated(self, x):
        """A head of keys or values for each head of queries."""
        sizes = self.sizes
        times = sizes.heads // sizes.kv_heads
        if times == 1:
            return x
        shape = op.shape_of(x, 'i64')
        axes = lambda *which: op.gather(shape, op.constant(list(which)), scalar(0))
        wanted = op.concat([axes(0, 1), op.constant([times]), axes(2), op.constant([sizes.head])], 0)
        wide = op.broadcast(op.unsqueeze(x, scalar(2)), wanted, broadcast_spec='BIDIRECTIONAL')
        return op.reshape(wide, op.constant([0, sizes.heads, -1, sizes.head]), True)

    def causal(self, x):
        """What each token sees, as transformers writes it: [batch, 1, tokens, all tokens]."""
        count = size_along(x, 1)
        every = op.add(self.past, count)
        ranged = lambda end: op.range(scalar(0, np.int32), end, scalar(1, np.int32), 'i64')
        lifted = lambda x, *axes: op.unsqueeze(lifted(x, *axes[:-1]), scalar(axes[-1])) if axes else x
        keys = lifted(ranged(every), 0, 1, 2)
        queries = lifted(op.add(ranged(count), self.past), 0, 1, 3)
        lower = op.bitwise_and(scalar(True, np.bool_), op.less_equal(keys, queries))
        given = op.convert(self.attention_mask, 'boolean')
        given = op.unsqueeze(op.unsqueeze(given, scalar(1)), scalar(2))
        both = op.bitwise_and(lower, given)
        one = lambda x: op.reshape(x, op.constant([1]), False)
        shape = op.concat([self.batch, op.constant([1]), one(count), one(every)], 0)
        return op.broadcast(both, shape, broadcast_spec='BIDIRECTIONAL')

    def attention(self, x, layer, turns):
        sizes, rng = self.sizes, self.rng
        wide, narrow = sizes.hidden, sizes.kv_heads * sizes.head
        query = split_heads(linear(rng, x, wide, wide, sizes), sizes.heads, sizes.head)
        key = split_heads(linear(rng, x, narrow, wide, sizes), sizes.kv_heads, sizes.head)
        value = split_heads(linear(rng, x, narrow, wide, sizes), sizes.kv_heads, sizes.head)
        query, key = (rotate(part, *turns, sizes.head) for part in (query, key))
        key, value = self.cached(key, layer, 'key'), self.cached(value, layer, 'value')
        if self.mask is None:
            self.mask = self.causal(x)
        scale = scalar(sizes.head**-0.5, np.float32)
        mixed = op.scaled_dot_product_attention(query, self.repeated(key), self.repeated(value), self.mask, scale)
        mixed = op.reshape(op.transpose(mixed, op.constant([0, 2, 1, 3])), op.constant([0, 0, wide]), True)
        return linear(rng, mixed, wide, wide, sizes)

    def mlp(self, x):
        sizes, rng = self.sizes, self.rng
        gate = op.swish(linear(rng, x, sizes.inner, sizes.hidden, sizes))
        return linear(rng, op.multiply(gate, linear(rng, x, sizes.inner, sizes.hidden, sizes)), sizes.hidden,
                      sizes.inner, sizes)

    def model(self):
        sizes, rng = self.sizes, self.rng
        # NNCF keeps the first and the last matrix in 8 bits, with a scale for each row.
        ends = max(sizes.bits, 8)
        table = matrix(rng, sizes.vocab, sizes.hidden, ends, sizes.hidden)
        x = op.gather(table, op.convert(self.ids, 'i32'), scalar(0, np.int32))
        turns = angles(self.positions, sizes.head)
        for layer in range(sizes.layers):
            x = op.add(x, self.attention(rms_norm(rng, x, sizes.hidden), layer, turns))
            x = op.add(x, self.mlp(rms_norm(rng, x, sizes.hidden)))
        x = rms_norm(rng, x, sizes.hidden)
        if sizes.last_only:
            x = op.slice(x, op.constant([-1]), op.constant([LAST]), op.constant([1]), op.constant([1]))
        logits = op.matmul(x, matrix(rng, sizes.vocab, sizes.hidden, ends, sizes.hidden), False, True)
        logits.output(0).set_names({'logits'})
        inputs = [self.ids, self.attention_mask, self.positions, self.beams]
        for node in inputs:
            node.output(0).set_names({node.get_friendly_name()})
        return ov.Model([op.result(logits)], self.sinks, inputs, 'decoder')


def save(sizes, path):
    """Writes the model, once; a file that was not finished has another name."""
    if path.with_suffix('.bin').exists() and path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.parent / 'unfinished.xml'
    ov.save_model(Builder(sizes).model(), unfinished, compress_to_fp16=sizes.bits == 16)
    KEPT.clear()
    unfinished.with_suffix('.bin').rename(path.with_suffix('.bin'))
    return unfinished.rename(path)


def save_pipeline(sizes, folder, text):
    """A directory as optimum-intel writes it, with a tokenizer from `text`."""
    save(sizes, folder / 'openvino_model.xml')
    for name in 'openvino_tokenizer', 'openvino_detokenizer':
        for end in 'xml', 'bin':
            shutil.copyfile(text / f'{name}.{end}', folder / f'{name}.{end}')
    config = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': sizes.hidden,
              'head_dim': sizes.head, 'intermediate_size': sizes.inner, 'num_hidden_layers': sizes.layers,
              'num_attention_heads': sizes.heads, 'num_key_value_heads': sizes.kv_heads, 'vocab_size': sizes.vocab,
              'max_position_embeddings': 4096, 'rms_norm_eps': 1e-6, 'bos_token_id': 0, 'eos_token_id': 1}
    (folder / 'config.json').write_text(json.dumps(config))
    (folder / 'generation_config.json').write_text(json.dumps({'bos_token_id': 0, 'eos_token_id': 1}))
    return folder

#!/usr/bin/env python3
"""A network of Leela Chess Zero (.pb.gz) as ONNX, for runtimes that are compared with ours.

    pip install onnx numpy
    scripts/leela_onnx.py NETWORK.pb.gz OUT.onnx [--for onnxruntime|openvino]

Input `planes` [batch, 112, 8, 8]. Outputs: `policy`, as the network has it (1858 moves; 80 planes x 64 squares; or 64 x 64
pairs of squares and 192 promotions), and `value`: chances to win, draw and lose, or one number. Batch norms are in the
convolutions, the factors of attention in the weights. Runtimes get the form that is fastest in each: ONNX Runtime has
no fast Mish, but an operator for attention with several heads; OpenVINO has Mish, and recognises attention itself.
"""

import argparse
import gzip
import math
import struct
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

PLANES, SQUARES = 112, 64
# Planes of the current board that the dense embedding reads.
EMBEDDED_PLANES = 12

# --- the file ------------------------------------------------------------------------------------------------------

# Field names in the order of their numbers, with the kind of message; without one an array. `int` is a number, a dash
# a field that is not read.
KINDS = {
    "net": "- - - format:format - - - - - weights:weights",
    "format": "encoding:int network:network",
    "network": "input:int output:int network:int policy:int value:int moves_left:int activation:int smolgen:int "
    "ffn:int embedding:int",
    "array": "min:float max:float params:bytes encoding:int",
    "conv": "weights biases means variances gammas betas",
    "excite": "w1 b1 w2 b2",
    "block": "conv1:conv conv2:conv se:excite",
    "smolgen": "compress dense1_w dense1_b ln1_gammas ln1_betas dense2_w dense2_b ln2_gammas ln2_betas",
    "mha": "q_w q_b k_w k_b v_w v_b dense_w dense_b smolgen:smolgen rpe_q rpe_k rpe_v",
    "ffn": "dense1_w dense1_b dense2_w dense2_b",
    "encoder": "mha:mha ln1_gammas ln1_betas ffn:ffn ln2_gammas ln2_betas",
    "policy": "ip_pol_w ip_pol_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b ip4_pol_w encoder:encoder* headcount:int",
    "policies": "ip_pol_w ip_pol_b vanilla:policy",
    "value": "ip_val_w ip_val_b ip1_val_w ip1_val_b ip2_val_w ip2_val_b",
    "values": "winner:value",
    "weights": "input:conv residual:block* policy:conv ip_pol_w ip_pol_b value:conv ip1_val_w ip1_val_b ip2_val_w "
    "ip2_val_b policy1:conv - - - - - ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b pol_encoder:encoder* ip4_pol_w - "
    "pol_headcount:int ip_emb_w ip_emb_b encoder:encoder* headcount:int ip_val_w ip_val_b - - ip_mult_gate "
    "ip_add_gate smolgen_w - ip_emb_preproc_w ip_emb_preproc_b ip_emb_ln_gammas ip_emb_ln_betas ip_emb_ffn:ffn "
    "ip_emb_ffn_ln_gammas ip_emb_ffn_ln_betas value_heads:values policy_heads:policies",
}


class Message:
    """A message of the file: its fields by name, read when asked for."""

    def __init__(self, data, kind, encoding=1):
        self.kind, self.usual_encoding, self.fields = kind, encoding, {}
        for number, value in wire(data):
            self.fields.setdefault(number, []).append(value)

    def __getattr__(self, name):
        for number, word in enumerate(KINDS[self.kind].split(), 1):
            own, _, kind = word.partition(":")
            if own == name:
                found = [self.decoded(value, kind.rstrip("*") or "array") for value in self.fields.get(number, [])]
                return found if kind.endswith("*") else found[-1] if found else 0 if kind == "int" else None
        raise AttributeError(f"{self.kind} has no {name}")

    def decoded(self, value, kind):
        if kind == "array":
            return numbers(Message(value, kind), self.usual_encoding)
        if kind == "float":
            return struct.unpack("<f", value)[0]
        return Message(value, kind, self.usual_encoding) if kind in KINDS else value


def wire(data):
    """The fields of a message: numbers and values."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at : at + size]
        at += size


def numbers(array, encoding):
    """The numbers of an array: LINEAR16, half, bfloat16 or single."""
    data, encoding = array.params, array.encoding or encoding
    if encoding == 1:
        share = numpy.frombuffer(data, "<u2").astype(numpy.float32) / 65535
        return (1 - share) * numpy.float32(array.min or 0) + share * numpy.float32(array.max or 0)
    if encoding == 3:
        return (numpy.frombuffer(data, "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
    return numpy.frombuffer(data, {2: "<f2", 4: "<f4"}[encoding]).astype(numpy.float32)


def read(path):
    """Weights and formats of a file."""
    data = Path(path).read_bytes()
    net = Message(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, "net")
    net.usual_encoding = net.format.encoding or 1
    return net.weights, net.format.network


# --- the graph -----------------------------------------------------------------------------------------------------

ACTIVATIONS = ["default", "mish", "relu", "none", "tanh", "sigmoid", "selu", "swish", "relu2"]


class Graph:
    """ONNX nodes and weights. Values have channels last, [n, 64, channels], in attention; else [n, channels, 8, 8]."""

    def __init__(self, runtime):
        self.runtime, self.nodes, self.weights, self.shapes = runtime, [], [], []

    def constant(self, array, kind=numpy.float32):
        name = f"constant{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.ascontiguousarray(array, kind), name))
        return name

    def add(self, operator, *inputs, name=None, domain="", **attributes):
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        name = name or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [name], name=name, domain=domain, **attributes))
        return name

    def reshape(self, value, *shape):
        return self.add("Reshape", value, self.constant(shape, numpy.int64))

    def activate(self, value, activation):
        if activation == "none":
            return value
        if activation == "mish" and self.runtime == "onnxruntime":
            return self.mish_of_sigmoid(value)
        if activation == "swish":
            return self.add("Mul", value, self.add("Sigmoid", value))
        if activation == "relu2":
            positive = self.add("Relu", value)
            return self.add("Mul", positive, positive)
        return self.add(activation.capitalize(), value)

    def mish_of_sigmoid(self, x):
        """x (1 - s s) / (1 + s s) with s = sigmoid(-x): tanh(softplus(x)) without a logarithm."""
        sigmoid = self.add("Sigmoid", self.add("Neg", x))
        square, one = self.add("Mul", sigmoid, sigmoid), self.constant(1.0)
        share = self.add("Div", self.add("Sub", one, square), self.add("Add", square, one))
        return self.add("Mul", x, share)

    def dense(self, value, weight, bias, inputs, activation="none", factor=1.0):
        """A dense layer over the last axis."""
        value = self.add("MatMul", value, factor * weight.reshape(-1, inputs).T)
        value = value if bias is None else self.add("Add", value, factor * bias)
        return self.activate(value, activation)

    def norm(self, value, scale, shift, epsilon):
        return self.add("LayerNormalization", value, scale, shift, axis=-1, epsilon=epsilon)

    def convolution(self, value, block, inputs, activation="none"):
        """A convolution with its batch norm, and its output channels."""
        channels = len(block.means if block.means is not None else block.biases)
        side = math.isqrt(block.weights.size // (channels * inputs))
        weight = block.weights.reshape(channels, inputs, side, side)
        bias = numpy.zeros(channels, numpy.float32) if block.biases is None else block.biases
        if block.means is not None:
            factor = (1 if block.gammas is None else block.gammas) / numpy.sqrt(block.variances + 1e-5)
            weight = weight * factor[:, None, None, None]
            bias = (0 if block.betas is None else block.betas) + (bias - block.means) * factor
        value = self.add("Conv", value, weight, bias, kernel_shape=[side, side], pads=[side // 2] * 4)
        return self.activate(value, activation), channels

    def excite(self, value, layer, channels, activation):
        """Squeeze and excitation, as convolutions of one square."""
        def conv(source, weight, bias):
            return self.add("Conv", source, weight.reshape(len(bias), -1, 1, 1), bias, kernel_shape=[1, 1])

        squeezed = self.activate(conv(self.add("GlobalAveragePool", value), layer.w1, layer.b1), activation)
        weight = layer.w2.reshape(2 * channels, -1)
        scale = self.add("Sigmoid", conv(squeezed, weight[:channels], layer.b2[:channels]))
        shift = conv(squeezed, weight[channels:], layer.b2[channels:])
        return self.add("Add", self.add("Mul", value, scale), shift)

    def attention(self, value, mha, channels, heads, scores):
        """Attention of several heads; `scores` are those of the whole board, or nothing. The output's channels too."""
        width = mha.q_w.size // channels
        scale = (width // heads) ** -0.5
        query = self.dense(value, mha.q_w, mha.q_b, channels, factor=scale)
        key = self.dense(value, mha.k_w, mha.k_b, channels)
        values = self.dense(value, mha.v_w, mha.v_b, channels)
        if self.runtime == "onnxruntime":
            inputs = [query, key, values] + (["", "", scores] if scores else [])
            domain = "com.microsoft"
            attended = self.add("MultiHeadAttention", *inputs, domain=domain, num_heads=heads, scale=1.0)
            # Quantisation infers no shape of an operator that is not ONNX's own.
            shape = ["batch", SQUARES, width]
            self.shapes.append(helper.make_tensor_value_info(attended, TensorProto.FLOAT, shape))
            return attended, width
        query, key, values = (
            self.add("Transpose", self.reshape(one, 0, SQUARES, heads, -1), perm=order)
            for one, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (values, [0, 2, 1, 3]))
        )
        products = self.add("MatMul", query, key)
        products = self.add("Add", products, scores) if scores else products
        summed = self.add("MatMul", self.add("Softmax", products, axis=-1), values)
        return self.reshape(self.add("Transpose", summed, perm=[0, 2, 1, 3]), 0, SQUARES, width), width


class Network:
    """The layers of a file, added to a graph."""

    def __init__(self, path, runtime):
        self.weights, self.formats = read(path)
        self.graph = Graph(runtime)
        formats, weights = self.formats, self.weights
        self.is_attention = bool(weights.encoder)
        self.activation = "mish" if formats.activation == 1 else "relu"
        named = [ACTIVATIONS[number] for number in (formats.ffn, formats.smolgen)]
        if formats.network == 4 and weights.smolgen_w is not None:
            named = ["relu2", "swish"]
        self.ffn_activation, self.smolgen_activation = (self.activation if one == "default" else one for one in named)
        has_several = formats.network == 6 and weights.policy_heads is not None and weights.value_heads is not None
        self.is_dense = formats.embedding == 2 or has_several
        self.epsilon = 1e-3 if self.is_dense else 1e-6

    def body(self, planes):
        """The body's value and its channels."""
        return self.attention_body(planes) if self.is_attention else self.convolutions(planes)

    def convolutions(self, planes):
        graph, activation = self.graph, self.activation
        value, channels = graph.convolution(planes, self.weights.input, PLANES, activation)
        for block in self.weights.residual:
            inner, _ = graph.convolution(value, block.conv1, channels, activation)
            inner, _ = graph.convolution(inner, block.conv2, channels)
            inner = graph.excite(inner, block.se, channels, activation) if block.se else inner
            value = graph.activate(graph.add("Add", inner, value), activation)
        return value, channels

    def attention_body(self, planes):
        graph, weights = self.graph, self.weights
        squares = graph.add("Transpose", graph.reshape(planes, 0, PLANES, SQUARES), perm=[0, 2, 1])
        value, channels = self.dense_embedding(squares) if self.is_dense else self.map_embedding(squares)
        factor = (2 * len(weights.encoder)) ** -0.25
        value = self.gate(value, channels)
        if self.is_dense:
            norm = weights.ip_emb_ffn_ln_gammas, weights.ip_emb_ffn_ln_betas
            value = self.feed_forward(value, weights.ip_emb_ffn, norm, channels, factor, self.epsilon)
        for encoder in weights.encoder:
            value = self.encoder(value, encoder, channels, weights.headcount, factor, self.epsilon)
        return value, channels

    def map_embedding(self, squares):
        """Planes, and fixed numbers of each square, whose part of the product becomes a bias of the square."""
        weight = self.weights.ip_emb_w.reshape(-1, PLANES + SQUARES)
        bias = self.weights.ip_emb_b + numbers_of_pairs() @ weight[:, PLANES:].T
        return self.graph.dense(squares, weight[:, :PLANES], bias, PLANES, self.activation), len(weight)

    def dense_embedding(self, squares):
        """Planes, and what a dense layer makes of the current board."""
        graph, weights = self.graph, self.weights
        board = graph.add("Slice", squares, *(graph.constant([at], numpy.int64) for at in (0, EMBEDDED_PLANES, 2)))
        board = graph.reshape(board, 0, SQUARES * EMBEDDED_PLANES)
        board = graph.dense(board, weights.ip_emb_preproc_w, weights.ip_emb_preproc_b, SQUARES * EMBEDDED_PLANES)
        appended = len(weights.ip_emb_preproc_b) // SQUARES
        value = graph.add("Concat", squares, graph.reshape(board, 0, SQUARES, appended), axis=2)
        value = graph.dense(value, weights.ip_emb_w, weights.ip_emb_b, PLANES + appended, self.activation)
        return graph.norm(value, weights.ip_emb_ln_gammas, weights.ip_emb_ln_betas, self.epsilon), len(weights.ip_emb_b)

    def gate(self, value, channels):
        """The gates of the embedding, which the file holds with a channel's squares in sequence."""
        for operator, gate in (("Mul", self.weights.ip_mult_gate), ("Add", self.weights.ip_add_gate)):
            value = value if gate is None else self.graph.add(operator, value, gate.reshape(channels, SQUARES).T)
        return value

    def encoder(self, value, encoder, channels, heads, factor, epsilon):
        graph, mha = self.graph, encoder.mha
        if mha.rpe_q is not None:
            raise SystemExit("encodings of relative positions are not known")
        scores = self.board_scores(value, mha.smolgen, channels, heads) if mha.smolgen else None
        attended, width = graph.attention(value, mha, channels, heads, scores)
        attended = graph.dense(attended, mha.dense_w, mha.dense_b, width, factor=factor)
        value = graph.norm(graph.add("Add", attended, value), encoder.ln1_gammas, encoder.ln1_betas, epsilon)
        norm = encoder.ln2_gammas, encoder.ln2_betas
        return self.feed_forward(value, encoder.ffn, norm, channels, factor, epsilon)

    def feed_forward(self, value, ffn, norm, channels, factor, epsilon):
        hidden = self.graph.dense(value, ffn.dense1_w, ffn.dense1_b, channels, self.ffn_activation)
        added = self.graph.dense(hidden, ffn.dense2_w, ffn.dense2_b, len(ffn.dense1_b), factor=factor)
        return self.graph.norm(self.graph.add("Add", added, value), *norm, epsilon)

    def board_scores(self, value, smolgen, channels, heads):
        """Scores of all pairs of squares, from the whole board (smolgen)."""
        graph, activation = self.graph, self.smolgen_activation
        board = graph.dense(value, smolgen.compress, None, channels)
        inputs = SQUARES * (smolgen.compress.size // channels)
        board = graph.dense(graph.reshape(board, 0, inputs), smolgen.dense1_w, smolgen.dense1_b, inputs, activation)
        board = graph.norm(board, smolgen.ln1_gammas, smolgen.ln1_betas, 1e-3)
        board = graph.dense(board, smolgen.dense2_w, smolgen.dense2_b, len(smolgen.dense1_b), activation)
        board = graph.norm(board, smolgen.ln2_gammas, smolgen.ln2_betas, 1e-3)
        generated = len(smolgen.dense2_b) // heads
        scores = graph.dense(graph.reshape(board, 0, heads, generated), self.weights.smolgen_w, None, generated)
        return graph.reshape(scores, 0, heads, SQUARES, SQUARES)

    def policy(self, body, channels):
        graph, weights = self.graph, self.weights
        if weights.ip4_pol_w is not None or weights.policy_heads:
            return self.attention_policy(body, channels)
        if weights.policy1:
            value, inner = graph.convolution(body, weights.policy1, channels, self.activation)
            return graph.convolution(value, weights.policy, inner)[0]
        value, inner = graph.convolution(body, weights.policy, channels, self.activation)
        value = graph.reshape(value, 0, SQUARES * inner)
        return graph.dense(value, weights.ip_pol_w, weights.ip_pol_b, SQUARES * inner)

    def attention_policy(self, body, channels):
        if not self.is_attention:
            raise SystemExit("a policy of attention on convolutions is not known")
        graph, heads = self.graph, self.weights.policy_heads
        own = heads.vanilla if heads else self.weights
        if own.encoder if heads else own.pol_encoder:
            raise SystemExit("a policy with layers of attention is not known")
        embedding = next(one for one in (own, heads, self.weights) if one and one.ip_pol_w is not None)
        value = graph.dense(body, embedding.ip_pol_w, embedding.ip_pol_b, channels, self.activation)
        inputs, width = len(embedding.ip_pol_b), own.ip4_pol_w.size // 4
        query = graph.dense(value, own.ip2_pol_w, own.ip2_pol_b, inputs, factor=width**-0.5)
        key = graph.dense(value, own.ip3_pol_w, own.ip3_pol_b, inputs)
        pairs = graph.add("MatMul", query, graph.add("Transpose", key, perm=[0, 2, 1]))
        promotions = self.promotions(pairs, key, own.ip4_pol_w.reshape(4, width))
        return graph.add("Concat", graph.reshape(pairs, 0, SQUARES * SQUARES), promotions, axis=1)

    def promotions(self, pairs, key, weight):
        """From the seventh to the eighth rank: the logit of the pair and an offset of the square for each piece."""
        graph = self.graph

        def part(value, start, end, axis):
            return graph.add("Slice", value, *(graph.constant([at], numpy.int64) for at in (start, end, axis)))

        offsets = graph.dense(part(key, 56, 64, 1), weight[:3] + weight[3], None, weight.shape[1])
        plain = part(part(pairs, 48, 56, 1), 56, 64, 2)
        sums = graph.add("Add", graph.reshape(plain, 0, 8, 8, 1), graph.reshape(offsets, 0, 1, 8, 3))
        return graph.reshape(sums, 0, 8 * 8 * 3)

    def win_draw_loss(self, body, channels):
        graph, weights = self.graph, self.weights
        own = weights.value_heads.winner if weights.value_heads else weights
        if self.is_attention:
            value, inner = graph.dense(body, own.ip_val_w, own.ip_val_b, channels, self.activation), len(own.ip_val_b)
        else:
            value, inner = graph.convolution(body, weights.value, channels, self.activation)
        value = graph.reshape(value, 0, SQUARES * inner)
        value = graph.dense(value, own.ip1_val_w, own.ip1_val_b, SQUARES * inner, self.activation)
        value = graph.dense(value, own.ip2_val_w, own.ip2_val_b, len(own.ip1_val_b))
        return graph.add("Softmax", value, axis=-1) if len(own.ip2_val_b) == 3 else graph.add("Tanh", value)


def numbers_of_pairs():
    """[square, other]: -1 for itself, 1 where a queen or a knight gets on an empty board, else 0."""
    square = numpy.arange(SQUARES)
    files, ranks = (abs(one[:, None] - one) for one in (square % 8, square // 8))
    reaches = (files == 0) | (ranks == 0) | (files == ranks) | (files * ranks == 2)
    return reaches.astype(numpy.float32) - 2 * numpy.eye(SQUARES, dtype=numpy.float32)


def export(path, out, runtime):
    """Writes the network of a file as ONNX, in the form that suits a runtime best."""
    network = Network(path, runtime)
    graph = network.graph
    body = network.body("planes")
    outputs = {"policy": network.policy(*body), "value": network.win_draw_loss(*body)}
    for name, value in outputs.items():
        graph.add("Identity", value, name=name)
    planes = helper.make_tensor_value_info("planes", TensorProto.FLOAT, ["batch", PLANES, 8, 8])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "leela", [planes], results, graph.weights, value_info=graph.shapes),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
    )
    model.ir_version = 9
    onnx.save(model, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("out")
    parser.add_argument("--for", dest="runtime", choices=["onnxruntime", "openvino"], default="onnxruntime")
    arguments = parser.parse_args()
    export(arguments.network, arguments.out, arguments.runtime)


if __name__ == "__main__":
    main()

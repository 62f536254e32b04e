"""Writes llama_reference.json, dit_reference.json and t5_reference.json: losses and gradients of Hugging Face's models at toy size.

Needs torch, transformers and diffusers. Parameter p, in the order of the file, has scattered values in [-0.5, 0.5), norms 1
more; inputs have them in [-2, 2). All is computed in float64. Of every gradient the norm and each seventh value are kept.

    python test/data/model_reference.py
"""

import json
import os
import re

import diffusers
import torch
import transformers
from diffusers import WanTransformer3DModel
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, UMT5Config, UMT5EncoderModel

HERE = os.path.dirname(os.path.abspath(__file__))


def scattered(count, number, size=1.0):
    """Element i is size times a hash of i and number, less a half."""
    values = []
    for i in range(count):
        h = ((i * 7919 + number * 104729 + 17) * 2654435761) % 2**32
        h = ((h ^ (h >> 15)) * 2654435761) % 2**32
        values.append(size * (h / 2**32 - 0.5))
    return torch.tensor(values, dtype=torch.float64)


def fill(named):
    with torch.no_grad():
        for place, (name, parameter) in enumerate(named):
            values = scattered(parameter.numel(), place) + (1.0 if is_norm(name) else 0.0)
            parameter.copy_(values.reshape(parameter.shape))


def is_norm(name):
    parts = name.split(".")
    return parts[-1] == "weight" and any("norm" in part for part in parts)


def gradients(named):
    return {
        name: {
            "shape": list(parameter.shape),
            "norm": parameter.grad.norm().item(),
            "every7th": [float(f"{value:.6e}") for value in parameter.grad.reshape(-1)[::7].tolist()],
        }
        for name, parameter in named
    }


def language_model(name, model, shape):
    model = model.double()
    named = list(model.named_parameters())
    fill(named)
    vocab = shape["vocab"]
    ids = torch.tensor([[(7 * i + 3 * b) % vocab for i in range(9)] for b in range(2)])
    logits = model(ids[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, vocab), ids[:, 1:].reshape(-1))
    loss.backward()
    return {"name": name, "shape": shape, "loss": loss.item(), "gradients": gradients(named)}


def llama_cases():
    shape = {"layers": 2, "dim": 16, "heads": 4, "ffn": 24, "vocab": 40, "seq": 8}
    sizes = {
        "vocab_size": 40,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "attn_implementation": "eager",
    }
    llama = LlamaConfig(**sizes, num_key_value_heads=2, rms_norm_eps=1e-5, rope_theta=500000.0)
    yield language_model(
        "llama", LlamaForCausalLM(llama), {**shape, "kvHeads": 2, "ropeTheta": 500000, "normEps": 1e-5}
    )
    qwen = Qwen2Config(
        **sizes, num_key_value_heads=4, rms_norm_eps=1e-6, tie_word_embeddings=True, rope_theta=10000.0
    )
    yield language_model(
        "qwen2 (bias, tied)",
        Qwen2ForCausalLM(qwen),
        {**shape, "qkvBias": True, "tied": True, "normEps": 1e-6},
    )


# Wan2.2's own names of what diffusers names otherwise, in Wan2.2's order.
OUTER = {
    "patch_embedding": "patch_embedding",
    "text_embedding.0": "condition_embedder.text_embedder.linear_1",
    "text_embedding.2": "condition_embedder.text_embedder.linear_2",
    "time_embedding.0": "condition_embedder.time_embedder.linear_1",
    "time_embedding.2": "condition_embedder.time_embedder.linear_2",
    "time_projection.1": "condition_embedder.time_proj",
}
ATTENTION = {"q": "to_q", "k": "to_k", "v": "to_v", "o": "to_out.0", "norm_q": "norm_q", "norm_k": "norm_k"}


def wan_names(layers):
    names = [(f"{ours}.{kind}", f"{theirs}.{kind}") for ours, theirs in OUTER.items() for kind in ("weight", "bias")]
    for layer in range(layers):
        block = f"blocks.{layer}"
        names.append((f"{block}.modulation", f"{block}.scale_shift_table"))
        parts = [(f"self_attn.{ours}", f"attn1.{theirs}") for ours, theirs in ATTENTION.items()]
        parts += [("norm3", "norm2")]
        parts += [(f"cross_attn.{ours}", f"attn2.{theirs}") for ours, theirs in ATTENTION.items()]
        parts += [("ffn.0", "ffn.net.0.proj"), ("ffn.2", "ffn.net.2")]
        for ours, theirs in parts:
            for kind in ("weight", "bias"):
                if kind == "weight" or "norm_" not in ours:
                    names.append((f"{block}.{ours}.{kind}", f"{block}.{theirs}.{kind}"))
    names += [("head.modulation", "scale_shift_table")]
    names += [(f"head.head.{kind}", f"proj_out.{kind}") for kind in ("weight", "bias")]
    return names


def dit_case(name, patch, latent, in_channels):
    shape = {
        "layers": 2,
        "dim": 24,
        "heads": 2,
        "ffn": 20,
        "latent": latent,
        "patch": patch,
        "inChannels": in_channels,
        "outChannels": 4,
        "freqDim": 8,
        "textDim": 10,
        "textLen": 5,
    }
    model = WanTransformer3DModel(
        patch_size=tuple(patch),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=in_channels,
        out_channels=4,
        text_dim=10,
        freq_dim=8,
        ffn_dim=20,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        eps=1e-6,
        rope_max_seq_len=64,
    ).double()
    theirs = dict(model.named_parameters())
    named = [(ours, theirs[other]) for ours, other in wan_names(2)]
    assert len(named) == len(theirs)
    fill(named)
    frames, rows, columns = latent
    size = frames * rows * columns
    latents = scattered(2 * in_channels * size, 1001, 4.0).reshape(2, in_channels, frames, rows, columns)
    text = scattered(2 * 5 * 10, 1002, 4.0).reshape(2, 5, 10)
    velocity = scattered(2 * 4 * size, 1003, 4.0).reshape(2, 4, frames, rows, columns)
    predicted = model(latents, torch.tensor([612.5, 40.0]), text, return_dict=False)[0]
    loss = (predicted - velocity).square().mean()
    loss.backward()
    return {"name": name, "shape": shape, "loss": loss.item(), "gradients": gradients(named)}


def dit_cases():
    yield dit_case("text to video", [1, 2, 2], [3, 4, 6], 4)
    yield dit_case("with a condition, patches of two frames", [2, 2, 1], [4, 4, 3], 7)


def t5_cases():
    config = UMT5Config(
        vocab_size=30,
        d_model=12,
        d_kv=5,
        d_ff=14,
        num_layers=2,
        num_heads=3,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=6,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        attn_implementation="eager",
    )
    model = UMT5EncoderModel(config).double()
    theirs = dict(model.named_parameters())
    names = [("token_embedding.weight", "shared.weight")]
    for layer in range(2):
        ours, other = f"blocks.{layer}", f"encoder.block.{layer}"
        attention, ffn = f"{other}.layer.0.SelfAttention", f"{other}.layer.1.DenseReluDense"
        names += [(f"{ours}.norm1.weight", f"{other}.layer.0.layer_norm.weight")]
        names += [(f"{ours}.attn.{part}.weight", f"{attention}.{part}.weight") for part in "qkvo"]
        names += [(f"{ours}.norm2.weight", f"{other}.layer.1.layer_norm.weight")]
        names += [(f"{ours}.ffn.gate.0.weight", f"{ffn}.wi_0.weight")]
        names += [(f"{ours}.ffn.fc1.weight", f"{ffn}.wi_1.weight")]
        names += [(f"{ours}.ffn.fc2.weight", f"{ffn}.wo.weight")]
        names += [(f"{ours}.pos_embedding.embedding.weight", f"{attention}.relative_attention_bias.weight")]
    names += [("norm.weight", "encoder.final_layer_norm.weight")]
    named = [(ours, theirs[other]) for ours, other in names]
    assert len(named) == len(theirs)
    fill(named)
    ids = torch.tensor([[(7 * i + 3 * b) % 30 for i in range(9)] for b in range(2)])
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
    weights = scattered(2 * 9 * 12, 1001, 4.0).reshape(2, 9, 12)
    # What padding itself comes to is nobody's matter.
    loss = (model(ids, attention_mask=mask).last_hidden_state * weights * mask[:, :, None]).mean()
    loss.backward()
    shape = {"layers": 2, "dim": 12, "attnDim": 15, "heads": 3, "ffn": 14, "vocab": 30, "seq": 9}
    shape = {**shape, "relativeBuckets": 8, "relativeDistance": 6}
    yield {"name": "umt5", "shape": shape, "loss": loss.item(), "gradients": gradients(named)}


def write(name, cases):
    text = {
        "_note": "Written by model_reference.py, which says what it is.",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "diffusers": diffusers.__version__,
        "cases": list(cases),
    }
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        indented = json.dumps(text, indent=1)
        # First each array, then each object that holds no other: a shape, a gradient.
        for inner in (r"\[[^\[\]{}]*\]", r"\{[^{}]*\}"):
            indented = re.sub(inner, on_one_line, indented)
        file.write(indented + "\n")


def on_one_line(found):
    text = found.group()
    return text[0] + " ".join(text[1:-1].split()) + text[-1]


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("llama_reference.json", llama_cases())
    write("dit_reference.json", dit_cases())
    write("t5_reference.json", t5_cases())

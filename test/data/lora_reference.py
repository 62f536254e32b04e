"""Writes lora_reference.json: losses of PEFT's adapters on a tiny Llama and a tiny GPT-2, without and with DoRA, step by step.

Needs torch, transformers and peft. Parameters have model_reference.py's scattered values: those of the base in the order of the
base model, then all A; B is 0, as PEFT makes it. Training is plain SGD without momentum, so the losses depend on the gradients
alone. All is computed in float64.

    python test/data/lora_reference.py
"""

import json
import os

import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 5
LR = 0.2


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
            norm = any(part.startswith("ln_") or "norm" in part for part in name.split("."))
            base = 1.0 if norm and name.endswith("weight") else 0.0
            parameter.copy_((scattered(parameter.numel(), place) + base).reshape(parameter.shape))


def case(name, model, shape, lora, targets):
    model = model.double()
    base = list(model.named_parameters())
    names = [name for name, _ in base]
    fill(base)
    adapted = get_peft_model(model, LoraConfig(**lora, target_modules=targets)).double()
    trained = [(name, parameter) for name, parameter in adapted.named_parameters() if parameter.requires_grad]
    fill([(name, parameter) for name, parameter in trained if "lora_A" in name])
    vocab = shape["vocab"]
    ids = torch.tensor([[(7 * i + 3 * b) % vocab for i in range(9)] for b in range(2)])
    losses = []
    for _ in range(STEPS):
        logits = adapted(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, vocab), ids[:, 1:].reshape(-1))
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for _, parameter in trained:
                parameter -= LR * parameter.grad
                parameter.grad = None
    with torch.no_grad():
        merged = adapted.merge_and_unload()(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(merged.reshape(-1, vocab), ids[:, 1:].reshape(-1))
    return {
        "name": name,
        "shape": shape,
        "lora": {"r": lora["r"], "alpha": lora["lora_alpha"], "targets": targets, "useDora": lora["use_dora"]},
        "base": names,
        "trained": [name for name, _ in trained],
        "lr": LR,
        "losses": losses,
        "merged": loss.item(),
    }


def cases():
    shape = {"layers": 2, "dim": 16, "heads": 4, "vocab": 40, "seq": 8}
    llama = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    sizes = {**shape, "kvHeads": 2, "ffn": 24}
    gpt2 = GPT2Config(
        vocab_size=40, n_embd=16, n_layer=2, n_head=4, n_positions=8, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    for dora in (False, True):
        lora = {"r": 3, "lora_alpha": 6, "use_dora": dora}
        yield case("llama", LlamaForCausalLM(llama), sizes, lora, ["q_proj", "v_proj", "down_proj"])
        lora = {"r": 2, "lora_alpha": 2, "use_dora": dora}
        yield case("gpt2", GPT2LMHeadModel(gpt2), shape, lora, ["c_attn", "c_fc"])


if __name__ == "__main__":
    torch.manual_seed(0)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}"
    note = f"written by test/data/lora_reference.py with {versions}"
    with open(os.path.join(HERE, "lora_reference.json"), "w", encoding="utf-8") as file:
        json.dump({"note": note, "cases": list(cases())}, file, indent=1)
        file.write("\n")

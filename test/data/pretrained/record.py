"""Records tiny models as transformers saves them, with their losses, logits and greedy samples.

python -m pip install torch==2.13.0 transformers==5.23.0 && python test/data/pretrained/record.py
"""

import json
import os

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
SEQ = 16
LLAMA = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=96,
    max_position_embeddings=SEQ,
    rms_norm_eps=1e-5,
    bos_token_id=None,
    eos_token_id=None,
)
MODELS = {
    "gpt2": GPT2LMHeadModel(
        GPT2Config(
            n_layer=2, n_embd=32, n_head=4, n_positions=SEQ, vocab_size=96, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0,
            bos_token_id=None, eos_token_id=None,
        )
    ),
    "llama": LlamaForCausalLM(LlamaConfig(**LLAMA, rope_theta=5000.0)),
    "qwen2": Qwen2ForCausalLM(Qwen2Config(**LLAMA, tie_word_embeddings=True)),
}


def main():
    torch.manual_seed(7)
    recorded = {"torch": torch.__version__, "transformers": transformers.__version__}
    for name, model in MODELS.items():
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        model.eval()
        folder = os.path.join(HERE, name)
        # Several files for one of them, as large models have.
        model.save_pretrained(folder, max_shard_size="40KB" if name == "qwen2" else "5GB")
        ids = torch.arange(2 * (SEQ + 1)).reshape(2, SEQ + 1) * 31 % 96
        with torch.no_grad():
            logits = model(ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 96), ids[:, 1:].reshape(-1))
            prompt = ids[:1, :4]
            # Without a mask, generate takes the id 0 for padding.
            sample = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=SEQ - 4, do_sample=False, pad_token_id=0
            )
        recorded[name] = {
            "ids": ids.tolist(),
            "loss": loss.item(),
            "logits": logits[0, -1, :8].tolist(),
            "greedy": sample[0].tolist(),
        }
    with open(os.path.join(HERE, "recorded.json"), "w") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded.items()) + "\n}\n")


main()

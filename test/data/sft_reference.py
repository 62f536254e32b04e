"""Writes instructions/tokenizer and sft_reference.json: what transformers and PEFT make of instructions/chats.jsonl.

Needs torch, transformers, jinja2 and peft. The tokenizer is that of files/tokenizer.json with two special tokens and a chat template. Losses
are those of supervised fine-tuning of a tiny Llama's adapters by AdamW with a cosine schedule: a step's loss is the mean over the
tokens of answers of all its microbatches. Parameters have lora_reference.py's scattered values. All is computed in float64.

    python test/data/sft_reference.py
"""

import json
import os

import peft
import torch
import transformers
from lora_reference import fill
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, get_cosine_schedule_with_warmup

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "instructions")
SEQ = 64
SEED = 3
BATCH = 2
ACCUMULATION = 2
STEPS = 8
LR = 2e-2
IGNORED = -100

# The generation tags mark answers for transformers; they write nothing.
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{{ '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make_tokenizer():
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=os.path.join(HERE, "files", "tokenizer.json"), eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = TEMPLATE
    folder = os.path.join(FOLDER, "tokenizer")
    tokenizer.save_pretrained(folder)
    return tokenizer


def read_examples(tokenizer):
    with open(os.path.join(FOLDER, "chats.jsonl"), encoding="utf-8") as file:
        chats = [json.loads(line)["messages"] for line in file]
    examples = []
    for messages in chats:
        made = tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        examples.append({"ids": made["input_ids"], "answers": made["assistant_masks"]})
    return examples


def rows_of(examples):
    """Returns inputs and labels; examples that are too long are left out, as ms-swift does."""
    rows = []
    for example in examples:
        ids, answers = example["ids"], example["answers"]
        if len(ids) > SEQ:
            continue
        labels = [token if counts else IGNORED for token, counts in zip(ids[1:], answers[1:])] + [IGNORED]
        padding = SEQ - len(ids)
        rows.append((ids + [0] * padding, labels + [IGNORED] * padding))
    return rows


def order(count):
    epoch = 0
    while True:
        generator = torch.Generator().manual_seed(SEED + epoch)
        yield from torch.randperm(count, generator=generator).tolist()
        epoch += 1


def train(rows, vocab):
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=SEQ,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).double()
    base = list(model.named_parameters())
    names = [name for name, _ in base]
    fill(base)
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj", "down_proj"])
    adapted = get_peft_model(model, lora).double()
    trained = [(name, one) for name, one in adapted.named_parameters() if one.requires_grad]
    fill([(name, one) for name, one in trained if "lora_A" in name])
    parameters = [one for _, one in trained]
    optimizer = torch.optim.AdamW(parameters, lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = get_cosine_schedule_with_warmup(optimizer, 0, STEPS)
    next_row = order(len(rows))
    losses, norms = [], []
    for _ in range(STEPS):
        batches = [[rows[next(next_row)] for _ in range(BATCH)] for _ in range(ACCUMULATION)]
        targets = sum(label != IGNORED for batch in batches for _, labels in batch for label in labels)
        total = 0.0
        for batch in batches:
            ids = torch.tensor([row for row, _ in batch])
            labels = torch.tensor([row for _, row in batch])
            logits = adapted(ids).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / targets
            loss.backward()
            total += loss.item()
        losses.append(total)
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0).item())
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return {"base": names, "trained": [name for name, _ in trained], "losses": losses, "norms": norms}


if __name__ == "__main__":
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    examples = read_examples(tokenizer)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}"
    settings = {"seq": SEQ, "seed": SEED, "batch": BATCH, "accumulation": ACCUMULATION, "steps": STEPS, "lr": LR}
    record = {"note": f"written by test/data/sft_reference.py with {versions}", "settings": settings, "examples": examples}
    record["training"] = train(rows_of(examples), len(tokenizer))
    with open(os.path.join(HERE, "sft_reference.json"), "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.write("\n")

"""Writes dpo_reference.json: what TRL's DPOTrainer makes of preferences/pairs.jsonl, with and without adapters, step by step.

Needs torch, transformers, peft and trl. The tokenizer is that of sft_reference.py. TRL trains a tiny Llama by AdamW with a constant
rate on pairs that are tokenized here: an answer ends with the token that ends it, as in supervised fine-tuning, and blanks that
the template writes after it do not count (TRL's own tokenization counts them). Parameters have lora_reference.py's scattered
values. All is computed in float64.

    python test/data/dpo_reference.py
"""

import json
import os
import tempfile

import peft
import torch
import transformers
import trl
from datasets import Dataset
from lora_reference import fill
from peft import LoraConfig
from torch.utils.data import SequentialSampler
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import DPOConfig, DPOTrainer

HERE = os.path.dirname(os.path.abspath(__file__))
SEQ = 64
SEED = 3
BATCH = 2
ACCUMULATION = 2
STEPS = 8
BETA = 0.3
TARGETS = ["q_proj", "v_proj", "down_proj"]
REWARDS = {"margin": "margins", "accuracy": "accuracies", "chosen": "chosen", "rejected": "rejected"}
CASES = [
    {"name": "full", "lora": False, "labelSmoothing": 0.0, "lr": 2e-3},
    {"name": "full, smoothed", "lora": False, "labelSmoothing": 0.1, "lr": 2e-3},
    {"name": "lora", "lora": True, "labelSmoothing": 0.0, "lr": 2e-2},
]


def turns(messages):
    roles = {"human": "user", "gpt": "assistant"}
    return [
        {"role": roles.get(one.get("from"), one.get("role")), "content": one.get("value", one.get("content"))}
        for one in messages
    ]


def answer(value):
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    return turns(value if isinstance(value, list) else [value])


def pair_of(record):
    """Returns the chosen and the rejected conversation; None if the record has only one answer."""
    if "chosen" in record:
        prompt = record.get("prompt", record.get("conversations", []))
        prompt = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else turns(prompt)
        return prompt + answer(record["chosen"]), prompt + answer(record["rejected"])
    if "rejected_messages" in record:
        return record["messages"], record["rejected_messages"]
    if "rejected_response" in record:
        return record["messages"], record["messages"][:-1] + answer(record["rejected_response"])
    return None


def tokens_of(tokenizer, messages, common):
    """Returns all ids up to the end of the last answer, and the number of ids before the first answer after `common` messages."""
    before = tokenizer.apply_chat_template(messages[:common], tokenize=True, return_dict=True, add_generation_prompt=True)
    made = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    end = max(i for i, counts in enumerate(made["assistant_masks"]) if counts) + 1
    return made["input_ids"], len(before["input_ids"]), end


def read_pairs(tokenizer):
    pairs = []
    with open(os.path.join(HERE, "preferences", "pairs.jsonl"), encoding="utf-8") as file:
        for line in file:
            pair = pair_of(json.loads(line))
            if pair is None or pair[0] == pair[1]:
                continue
            common = 0
            while pair[0][common] == pair[1][common]:
                common += 1
            chosen, start, chosen_end = tokens_of(tokenizer, pair[0], common)
            rejected, _, rejected_end = tokens_of(tokenizer, pair[1], common)
            if max(len(chosen), len(rejected)) > SEQ:
                continue
            ids = {"prompt_ids": chosen[:start], "chosen_ids": chosen[start:chosen_end]}
            pairs.append({**ids, "rejected_ids": rejected[start:rejected_end]})
    return pairs


def order(count):
    epoch = 0
    while True:
        generator = torch.Generator().manual_seed(SEED + epoch)
        yield from torch.randperm(count, generator=generator).tolist()
        epoch += 1


class Recorded(DPOTrainer):
    """Trains on rows that have tokens already, in their order, and records each microbatch's loss."""

    def _prepare_dataset(self, dataset, *_):
        return dataset

    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(dataset if dataset is not None else self.train_dataset)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        metrics = {key: self._metrics["train"][f"rewards/{name}"][-1] for key, name in REWARDS.items()}
        self.seen.append({"losses": loss.item(), **metrics})
        return loss


def new_model(vocab):
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
    fill(list(model.named_parameters()))
    return model


def by_step(values):
    groups = [values[i : i + ACCUMULATION] for i in range(0, len(values), ACCUMULATION)]
    return [sum(group) / len(group) for group in groups]


def smoothed(share):
    """Returns the arguments for conservative DPO (Mitchell 2023), which TRL 1 has as a sum of two of its losses only."""
    if share == 0:
        return {}
    weights = [2 * (1 - share), -(1 - 2 * share)]
    return {"label_smoothing": share, "loss_type": ["sigmoid", "robust"], "loss_weights": weights}


def train(case, tokenizer, pairs):
    next_row = order(len(pairs))
    rows = [pairs[next(next_row)] for _ in range(STEPS * ACCUMULATION * BATCH)]
    model = new_model(len(tokenizer))
    names = [name for name, _ in model.named_parameters()]
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=TARGETS) if case["lora"] else None
    with tempfile.TemporaryDirectory() as folder:
        args = DPOConfig(
            output_dir=folder,
            beta=BETA,
            **smoothed(case["labelSmoothing"]),
            learning_rate=case["lr"],
            weight_decay=0.0,
            lr_scheduler_type="constant",
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=ACCUMULATION,
            max_steps=STEPS,
            max_length=None,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
        )
        reference = None if case["lora"] else new_model(len(tokenizer))
        data = Dataset.from_list(rows)
        trainer = Recorded(model, reference, args, train_dataset=data, processing_class=tokenizer, peft_config=lora)
        trainer.seen = []
        trainer.model.double()
        trained = [(name, one) for name, one in trainer.model.named_parameters() if one.requires_grad]
        if case["lora"]:
            fill([(name, one) for name, one in trained if "lora_A" in name])
        trainer.train()
    measured = {key: by_step([one[key] for one in trainer.seen]) for key in trainer.seen[0]}
    return {**case, "base": names, "trained": [name for name, _ in trained], **measured}


if __name__ == "__main__":
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(HERE, "instructions", "tokenizer"))
    pairs = read_pairs(tokenizer)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}, trl {trl.__version__}"
    settings = {"seq": SEQ, "seed": SEED, "batch": BATCH, "accumulation": ACCUMULATION, "steps": STEPS, "beta": BETA}
    record = {"note": f"written by test/data/dpo_reference.py with {versions}", "settings": settings, "pairs": pairs}
    record["cases"] = [train(case, tokenizer, pairs) for case in CASES]
    with open(os.path.join(HERE, "dpo_reference.json"), "w", encoding="utf-8") as file:
        json.dump(record, file)
        file.write("\n")
